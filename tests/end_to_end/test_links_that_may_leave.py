"""No way of several commands makes a link that leaves the workspace, where nobody was asked."""

from pathlib import Path

from tests.end_to_end.session_s import code, opened, start_with
from tests.end_to_end.stockaded import Stockaded

WAYS = {
    "a link moves up with its directory": ("mkdir -p a/b/c; ln -s ../../../../x a/b/c/l", "mv a/b/c c"),
    "a link moves up with a directory above it": ("mkdir -p a/b/c; ln -s ../../../../x a/b/c/l", "mv a/b b"),
    "a name in a link's way may become a link itself": ("mkdir -p m/n", "ln -s m/n/../../x l"),
    "the same by an absolute path": ("mkdir -p m/n", "ln -s $PWD/m/n/../../x l"),
}
STAYS = "mkdir -p a/b; echo x > x; ln -s ../../x a/b/l; ln -s b/l a/m; ln -s ./a/b k; ln -s $PWD/x abs; mv a/b a/c"


async def test_a_link_that_may_leave_is_refused_where_nobody_can_be_asked(
    stockaded: Stockaded, workspace: Path
) -> None:
    start_with(stockaded, {"keeping": '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "commit"\n'})
    came = {}
    async with opened(stockaded, workspace, "keeping") as (_, session):
        for number, (way, (first, second)) in enumerate(WAYS.items()):
            begun = await session.call("shell", command=f"mkdir w{number}; cd w{number}; {first}")
            assert code(begun) == "ok", (way, begun.content)
            came[way] = code(await session.call("shell", command=f"cd w{number}; {second}"))
        assert came == dict.fromkeys(WAYS, "FS_PROTECTED")
        inside = await session.call("shell", command=f"mkdir inside; cd inside; {STAYS}")
        assert code(inside) == "ok", inside.content
        moved = await session.call("shell", command="mkdir deep; mv inside/a deep/a; mv deep/a inside/a")
        assert code(moved) == "ok", moved.content
