"""Commands: their output, their ends, and what they leave."""

import re

from tests.conformance.cases.properties.looking import all_ok, everything, legible
from tests.conformance.cases.properties.processes import left_of, zombies_below
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import hold


@of("SHL-01")
def no_process_of_the_call_is_left(played: Played) -> None:
    left_of(b"sleep\x00300", played.places.workspace)


@of("SHL-06")
def there_is_no_terminal(played: Played) -> None:
    out = str(played.of(0).field("stdout"))
    found = re.search(r"rc=(\d+)", out)
    hold(found and found[1] != "0", f"it printed {out!r}")
    hold("/dev/tty" in everything(played.of(0)), "nothing says that there is no terminal")


@of("SHL-07")
def nobody_waits_for_an_editor_or_a_pager(played: Played) -> None:
    hold("rc=" in str(played.of(0).field("stdout")), "the status is not shown")


@of("SHL-08")
def a_flood_on_one_stream_leaves_the_other(played: Played) -> None:
    hold("out" in str(played.of(0).field("stdout")), "`out` is missing")


@of("SHL-10")
def characters_of_output_stay_whole(played: Played) -> None:
    legible(played.all())
    hold("\ufffd" not in everything(played.of(0)), "a reply holds U+FFFD")


@of("SHL-17")
def what_a_process_substitution_printed_is_there(played: Played) -> None:
    hold("hello" in str(played.of(0).field("stdout")), "`hello` is missing")


@of("SHL-18")
def a_cancelled_command_leaves_its_output_and_no_process(played: Played) -> None:
    hold("start" in str(played.of(0).field("stdout")), "the partial output is missing")
    left_of(b"sleep\x00600", played.places.workspace)


@of("SHL-20")
def each_command_has_a_fresh_shell(played: Played) -> None:
    all_ok(played.all())
    wanted = f"{played.places.workspace}\n[]\n"
    hold(played.of(1).field("stdout") == wanted, f"it printed {played.of(1).field('stdout')!r}, not {wanted!r}")


@of("SHL-24")
def output_of_one_call_is_not_in_the_next(played: Played) -> None:
    all_ok(played.all())
    hold(played.of(1).field("stdout") == "second\n", f"it printed {played.of(1).field('stdout')!r}")


@of("SHL-26")
def a_long_command_is_delivered(played: Played) -> None:
    hold(played.of(0).field("exit_code") == 0, f"exit status {played.of(0).field('exit_code')!r}")
    hold(str(played.of(0).field("stdout")).startswith("xxx"), "it printed something else")


@of("SHL-31")
def no_zombies_are_left(played: Played) -> None:
    hold(zombies_below(played.daemon_pid) == 0, "there are zombies below the daemon")


@of("COD-02", "COD-11")
def what_was_printed_is_kept(played: Played) -> None:
    wanted = "before" if played.case.id == "COD-02" else "end"
    hold(wanted in str(played.of(0).field("stdout")), f"{wanted!r} is missing")
    left_of(b"sleep\x00600", played.places.workspace)


@of("SHL-11")
def a_flood_has_head_and_tail_and_a_number(played: Played) -> None:
    for reply, letters in zip(played.all(), ("y\n", "a"), strict=True):
        for text in (str(reply.field("stdout")), reply.text):
            found = re.search(r"\n\[(\d+) bytes left out", text)
            hold(found is not None and int(found[1]) > 0, "nothing says how many bytes were dropped")
            head, _, tail = text.partition("\n[")
            # The model's text begins with why the call failed, and ends with what was changed.
            hold(letters * 1000 in head, "the head is missing")
            hold(letters * 1000 in tail, "the tail is missing")


@of("SHL-15")
def nothing_claims_that_a_pipeline_succeeded(played: Played) -> None:
    hold(played.of(0).field("stdout") == "out\n", f"it printed {played.of(0).field('stdout')!r}")
    claims = re.findall(r"(?i)succe\w+|passed|all good", everything(played.of(0)))
    hold(not claims, f"the reply claims {claims}")


@of("SHL-22")
def the_daemons_secrets_are_in_no_reply(played: Played) -> None:
    replies = [everything(reply) for reply in played.all()]
    for secret in ("sk-1", "c-2", "v-3"):
        hold(not any(secret in text for text in replies), f"{secret} is in a reply")
    for name in ("PATH", "HOME", "LANG"):
        hold(f"{name}=" in replies[0], f"{name} is missing")


@of("OWN-SHL-01", "OWN-SHL-02")
def a_flood_of_processes_leaves_the_daemon_answering(played: Played) -> None:
    hold(played.of(1).code == "FS_IS_DIRECTORY", f"the call after it came to {played.of(1)}")
    hold(played.of(1).seconds < 2, f"the call after it took {played.of(1).seconds:.1f} s")


@of("SHL-33")
def every_write_is_refused_to_the_command(played: Played) -> None:
    all_ok(played.all())
    for reply in played.all():
        found = re.fullmatch(r"rc=(\d+)\n", str(reply.field("stdout")))
        hold(found is not None and found[1] != "0", f"it printed {reply.field('stdout')!r}")
