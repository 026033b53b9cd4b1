"""No way of several commands brings git in the workspace to run what a command wrote, where nobody was asked."""

from pathlib import Path

from tests.end_to_end.session_s import code, opened, start_with
from tests.end_to_end.stockaded import Stockaded

EVIL = "printf '[core]\\n\\tfsmonitor = touch ran\\n'"
WAYS = {
    "a directory becomes the hooks of a new repository": (
        "mkdir ev; echo 'touch ran' > ev/post-index-change; chmod +x ev/*",
        "git init -q new; rm -rf new/.git/hooks; mv ev new/.git/hooks",
    ),
    "a file becomes a hook of a new repository": (
        "echo 'touch ran' > ev; chmod +x ev",
        "git init -q new; mv ev new/.git/hooks/post-index-change",
    ),
    "a file becomes the settings of a new repository": (
        f"{EVIL} > ev",
        "git init -q new; mv ev new/.git/config",
    ),
    "a directory gets its last name as a repository where it moves to": (
        f"mkdir -p ev/hooks ev/objects ev/refs; {EVIL} > ev/config",
        "mv ev new; echo ref: refs/heads/main > new/HEAD",
    ),
    "a directory below one that moves gets its last name as a repository": (
        f"mkdir -p ev/in/objects ev/in/refs; {EVIL} > ev/in/config",
        "mv ev new; echo ref: refs/heads/main > new/in/HEAD",
    ),
    "a directory moves into a new repository without a working tree": (
        "mkdir ev; echo 'touch ran' > ev/post-index-change; chmod +x ev/*",
        "git init -q --bare new; rm -rf new/hooks; mv ev new/hooks",
    ),
    "a directory becomes a submodule's repository": (
        "mkdir -p ev/objects ev/refs; printf '[core]\\n\\tfsmonitor = touch ran\\n' > ev/config; git init -q old",
        "mkdir -p old/.git/modules; mv ev old/.git/modules/sub; echo ref: refs/heads/main > old/.git/modules/sub/HEAD",
    ),
    "a directory becomes the hooks of an old repository": (
        "mkdir ev; echo 'touch ran' > ev/post-index-change; chmod +x ev/*; git init -q old",
        "rm -rf old/.git/hooks; mv ev old/.git/hooks",
    ),
    "a remote is a program, after more blanks than one": (
        "true",
        "git init -q new; printf '[remote \"o\"]\\n\\turl = \\t ext::sh -c touch% ran\\n' >> new/.git/config",
    ),
    "a branch's remote is a program": (
        "true",
        "git init -q new; printf '[branch \"main\"]\\n\\tremote = ext::sh -c touch% ran\\n' >> new/.git/config",
    ),
}


async def test_what_git_would_run_is_refused_where_nobody_can_be_asked(stockaded: Stockaded, workspace: Path) -> None:
    start_with(stockaded, {"keeping": '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "commit"\n'})
    came = {}
    async with opened(stockaded, workspace, "keeping") as (_, session):
        for number, (way, (first, second)) in enumerate(WAYS.items()):
            begun = await session.call("shell", command=f"mkdir w{number}; cd w{number}; {first}")
            assert code(begun) == "ok", (way, begun.content)
            result = await session.call("shell", command=f"set -e; cd w{number}; {second}")
            came[way] = code(result), (workspace / f"w{number}" / "new").exists()
    assert came == dict.fromkeys(WAYS, ("FS_PROTECTED", False))
