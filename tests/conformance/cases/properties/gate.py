"""What the gate lets through, under whatever happens beside it."""

from tests.conformance.cases.properties.looking import everything, on_disk
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import PATIENCE, hold

_SLOWEST_S = 2.0 * PATIENCE


@of("STA-16")
def what_was_deleted_is_created_and_called_so(played: Played) -> None:
    hold("created" in everything(played.of(3)).lower(), "the result does not say that the file was created")


@of("CON-02")
def one_of_two_writers_wins_whole(played: Played) -> None:
    found = on_disk(played, "p.md")
    hold(found in (b"A" * 9000, b"B" * 11000), f"the file holds {len(found)} bytes, of which {found[:8]!r}")
    for reply in played.last():
        hold(reply.ok or reply.code == "FS_STALE_VERSION", f"{reply}; expected ok or stale")
    hold(any(reply.ok for reply in played.last()), "neither writer succeeded")


@of("LRG-04")
def the_daemon_answers_the_next_call(played: Played) -> None:
    hold(played.of(1).code == "FS_IS_DIRECTORY", f"{played.of(1)}; expected is_directory")


@of("SPC-07")
def no_read_waits_for_a_writer(played: Played) -> None:
    hold(len(played.last()) == 300, f"{len(played.last())} of 300 reads have a result")
    allowed = {"", "FS_NOT_FOUND", "FS_NOT_REGULAR_FILE", "FS_CONFLICT"}
    for reply in played.last():
        hold(reply.code in allowed, f"{reply}; expected ok, not_found or not_regular")
        hold(reply.seconds <= _SLOWEST_S, f"a read took {reply.seconds:.1f} s")
