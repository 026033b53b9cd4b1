"""Arguments: what fits is frozen, what does not is refused with every fault in plain words; nothing is coerced."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal
from stockade_daemon.registry import Registry, freeze
from stockade_daemon.registry.arguments import Arguments
from stockade_daemon.values import Access, Body, Json, Kind, Manifest

REGISTRY = Registry.load()


def parse(tool: str, arguments: str | bytes | dict[str, Any]) -> Mapping[str, Json]:
    text = json.dumps(arguments) if isinstance(arguments, dict) else arguments
    return REGISTRY.parse(REGISTRY.find(tool), text.encode() if isinstance(text, str) else text)


def refusal(tool: str, arguments: str | bytes | dict[str, Any]) -> str:
    with pytest.raises(ArgumentsRefusal) as caught:
        parse(tool, arguments)
    assert caught.value.code == "INVALID_ARGS"
    assert len(caught.value.message.encode()) < 4096
    return caught.value.message


def arguments_of(properties: dict[str, Json], **more: Json) -> Arguments:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **more,
    }
    frozen = freeze(schema)
    assert isinstance(frozen, Mapping)
    return Arguments(Manifest("t", "T.", frozen, Access.NONE, Kind.READ, Body.FUNCTION, 1, True, True, 1, "T", False))


def test_what_fits_is_deeply_frozen() -> None:
    arguments = parse("shell", {"argv": ["ls", "-l"], "timeout_s": 1})
    assert arguments == {"argv": ("ls", "-l"), "timeout_s": 1}
    with pytest.raises(TypeError):
        arguments["argv"] = ()  # type: ignore[index]
    assert json_text.dump(arguments) == b'{"argv":["ls","-l"],"timeout_s":1}'


def test_empty_text_means_no_arguments() -> None:
    assert arguments_of({}).parse(b"") == {}
    assert "'path' is missing" in refusal("read", b"")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "a", "limit": "5"}, '$.limit must be an integer, not "5"'),
        ({"path": "a", "limit": 5.0}, "$.limit is 5.0: write an integer"),
        ({"path": "a", "limit": 5.5}, "$.limit must be an integer, not 5.5"),
        ({"path": "a", "limit": True}, "$.limit must be an integer, not true"),
        ({"path": "a", "limit": -1}, "$.limit must be at least 1, not -1"),
        ({"path": "a", "limit": 2001}, "$.limit must be at most 2000, not 2001"),
        ({"path": "a", "limit": 2**70}, "$.limit must be at most 2000, not 1180591620717411303424"),
        ({"path": "a", "offset": 0}, "$.offset must be at least 1, not 0"),
        ('{"path": "a", "offset": 1e2}', "$.offset is 100.0: write an integer"),
        ({"path": 1}, "$.path must be text, not 1"),
        ({"path": ["a"]}, "$.path must be text, not a list"),
        ({"path": ""}, "$.path must not be empty. Correct them"),
        ({"path": "a\0b"}, "$.path must not contain a NUL character"),
        ({"path": "a\n\0"}, "$.path must not contain a NUL character"),
        ({"pth": "a"}, "unknown argument 'pth': did you mean 'path'?"),
        ({"path": "a", "zzz": 1}, "unknown argument 'zzz': there are 'path', 'offset', 'limit', 'encoding'"),
        ({"path": "a", "__proto__": 1}, "unknown argument '__proto__'"),
        ({}, "the argument 'path' is missing"),
        ({"path": None}, "$.path must be text, not null"),
        ("[]", "they are a list, not one JSON object"),
        ('"{}"', 'they are "{}", not one JSON object'),
        ("null", "they are null, not one JSON object"),
        ('{"path": "a"', "the JSON is unusable: Expecting ',' delimiter at line 1"),
        ('{"path": "a", "path": "b"}', "the key 'path' stands twice"),
        ('{"path": "\\ud800"}', "lone surrogate"),
        ('{"path": "a", "limit": NaN}', "NaN, which is not JSON, at $.limit, character 23"),
        (b'{"path": "\xff"}', "not UTF-8"),
        (" ", "the JSON is unusable"),
    ],
)
def test_what_does_not_fit_read_is_refused_in_plain_words(arguments: Any, words: str) -> None:
    message = refusal("read", arguments)
    assert words in message
    assert message.endswith("Correct them and call it again.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "a", "old_string": "", "new_string": "x"}, "$.old_string must not be empty"),
        (
            {"path": "a", "old_string": "x", "new_string": "y", "replace_all": "false"},
            '$.replace_all must be true or false, not "false"',
        ),
        (
            {"path": "a", "old_string": "x", "new_string": "y", "replaceAll": True},
            "unknown argument 'replaceAll': did you mean 'replace_all'? Correct them",
        ),
    ],
)
def test_what_does_not_fit_edit_is_refused(arguments: Any, words: str) -> None:
    assert words in refusal("edit", arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give exactly one of 'command', 'argv': none was given"),
        ({"command": "a", "argv": ["a"]}, "give exactly one of 'command', 'argv': 'command' and 'argv' were given"),
        ({"command": None, "argv": None}, "none was given"),
        ({"argv": []}, "$.argv must not be empty"),
        ({"argv": ["a", "b\0"]}, "$.argv[1] must not contain a NUL character"),
        ({"argv": "ls"}, '$.argv must be a list, not "ls"'),
        ({"command": "a\0"}, "$.command must not contain a NUL character"),
        ({"command": "a", "cwd": "\0"}, "$.cwd must not contain a NUL character"),
        ({"command": "a", "timeout_s": 0}, "$.timeout_s must be more than 0, not 0"),
        ({"command": "a", "timeout_s": -1.5}, "$.timeout_s must be more than 0, not -1.5"),
        ({"command": "a", "timeout_s": "1"}, '$.timeout_s must be a number, not "1"'),
    ],
)
def test_what_does_not_fit_shell_is_refused(arguments: Any, words: str) -> None:
    assert words in refusal("shell", arguments)


def test_all_faults_are_in_one_message() -> None:
    message = refusal("edit", {"new_string": 1, "old_string": "", "paht": "a"})
    parts = message.removeprefix("The arguments do not fit the tool 'edit': ").split("; ")
    assert len(parts) == 4


def test_null_for_an_optional_argument_means_that_it_is_absent() -> None:
    assert parse("read", {"path": "a", "limit": None, "offset": None}) == {"path": "a"}
    assert parse("shell", {"command": None, "argv": ["a"]}) == {"argv": ("a",)}


def test_null_stays_where_the_schema_has_it_or_nothing_may_be_absent() -> None:
    arguments = arguments_of(
        {
            "nothing": {"type": "null", "description": "N."},
            "list": {"type": "array", "description": "L.", "items": {"type": "string", "description": "S."}},
        }
    )
    assert arguments.parse(b'{"nothing": null}') == {"nothing": None}
    with pytest.raises(ArgumentsRefusal, match=r"\$\.list\[0\] must be text, not null"):
        arguments.parse(b'{"list": [null]}')


def test_integers_of_any_size_are_judged_and_kept_exactly() -> None:
    arguments = arguments_of(
        {"n": {"type": "integer", "description": "N.", "maximum": 2**70}, "x": {"type": "number", "description": "X."}}
    )
    for number in (2**53 + 1, 2**64 + 1, -(2**70), 2**70):
        assert arguments.parse(b'{"n": %d}' % number) == {"n": number}
    with pytest.raises(ArgumentsRefusal, match="at most"):
        arguments.parse(b'{"n": %d}' % (2**70 + 1))
    assert arguments.parse(b'{"x": %d}' % 10**3000) == {"x": 10**3000}
    with pytest.raises(ArgumentsRefusal, match="write an integer"):
        arguments.parse(b'{"n": -1e300}')


def test_faults_deep_inside_are_named_by_their_path() -> None:
    inner: Json = {
        "type": "object",
        "description": "I.",
        "properties": {"line": {"type": "integer", "description": "L."}},
        "required": ["line"],
        "additionalProperties": False,
    }
    arguments = arguments_of({"edits": {"type": "array", "description": "E.", "items": inner}})
    with pytest.raises(ArgumentsRefusal) as caught:
        arguments.parse(b'{"edits": [{"line": 1.0}, {"lin": 1}, 7]}')
    for words in (
        "$.edits[0].line is 1.0: write an integer",
        "unknown argument 'lin' in $.edits[1]: did you mean 'line'?",
        "$.edits[1].line is missing",
        "$.edits[2] must be an object, not 7",
    ):
        assert words in caught.value.message


def test_a_surrogate_pair_is_joined_and_text_is_not_touched() -> None:
    assert parse("edit", '{"path":" a ","old_string":"\\ud83c\\udf78","new_string":"\\u00e9\\r\\n\\u0000"}') == {
        "path": " a ",
        "old_string": "\U0001f378",
        "new_string": "é\r\n\0",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"argv": [1] * 100_000},
        {f"k{number}": 1 for number in range(50_000)},
        {"x" * 1_000_000: 1},
        {"command": 1, "cwd": ["x"] * 100_000},
        {"argv": [str(number) + "\0" for number in range(900)]},
    ],
)
def test_a_flood_of_faults_makes_a_short_message(arguments: dict[str, Any]) -> None:
    assert "unknown argument" in (message := refusal("shell", arguments)) or "must" in message


def test_a_very_long_command_is_not_refused() -> None:
    command = "true " * 400_000
    assert parse("shell", {"command": command}) == {"command": command}


def test_what_a_job_has_of_the_workspace_is_said_only_of_a_job() -> None:
    view = {"command": "true", "workspace": "overlay"}
    for given in (view, {**view, "background": False}, {**view, "background": None}):
        assert "workspace is only for a call with background true; leave it out" in refusal("shell", given)
    assert parse("shell", {**view, "background": True})["workspace"] == "overlay"
    assert "background" not in parse("shell", {"command": "true", "workspace": None})
