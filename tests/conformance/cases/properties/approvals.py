"""Checks of what approvers are shown, and of answers."""

from stockade_client.visible import visible
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import hold

_HIDDEN = {"\u202e": "\\u202e", "\x1b": "\\x1b", "\r": "\\x0d"}


@of("APR-08")
def a_late_yes_is_refused(played: Played) -> None:
    hold(played.of(0).late == "NotFound", f"a late yes met {played.of(0).late or 'no error'}")


@of("APR-11")
def what_hides_in_a_command_is_seen(played: Played) -> None:
    for reply in played.all():
        hold(reply.asked, f"{reply} was not asked about")
        card, command = reply.asked[0], reply.arguments["command"]
        hold(card["arguments"]["command"] == command, "the card has another command")
        shown = visible(command)
        hold("touch P" in shown, f"it is shown as {shown!r}")
        hold(card["title"] == visible(card["title"]), f"the title is {card['title']!r}")
        for hidden, escape in _HIDDEN.items():
            hold(hidden not in shown and (hidden not in command or escape in shown), f"{escape} is not shown")
        lengths = {"characters": len(command), "lines": command.count("\n") + 1}
        hold(card["lengths"]["command"] == lengths, f"the lengths are {card['lengths']}")


@of("APR-07")
def of_two_answers_at_once_one_counts_and_the_other_is_told(played: Played) -> None:
    replies = list(played.all())
    hold(len(replies) == 200, f"it was repeated {len(replies)} times")
    for reply in replies:
        wanted = {("taken", "AskAlreadyDecided"): "", ("AskAlreadyDecided", "taken"): "APPROVAL_REJECTED"}
        hold(reply.told in wanted, f"yes and no were told {reply.told}")
        hold(reply.code == wanted[reply.told], f"{reply}, and yes and no were told {reply.told}")
