"""Manifests: the built-in ones load, and every mistake in one is named with its file, line and key."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.errors import ArgumentsRefusal, ConfigurationError
from stockade_daemon.registry import Registry
from stockade_daemon.values import Access, Body, Kind

GOOD: dict[str, Any] = {
    "name": "look",
    "description": "Looks.",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where."}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "access": "none",
    "kind": "read",
    "body": "function",
    "timeout_s": 1.5,
    "parallel_safe": True,
    "idempotent": True,
    "output_bytes": 100,
    "card_title": "Look at {path}",
    "observes": False,
}

Change = Callable[[dict[str, Any]], object]


def load(directory: Path, text: str | None = None, name: str = "look.json") -> Registry:
    (directory / name).write_text(json.dumps(GOOD, indent=1) if text is None else text)
    return Registry.load(directory)


def test_the_built_in_tools_are_what_the_documents_say() -> None:
    catalog = {manifest.name: manifest for manifest in Registry.load().catalog()}
    rows = {
        name: (item.access, item.kind, item.body, item.timeout_s, item.parallel_safe, item.idempotent, item.observes)
        for name, item in catalog.items()
    }
    assert {name: rows[name] for name in ("edit", "read", "shell")} == {
        "edit": (Access.NONE, Kind.WRITE, Body.FUNCTION, 30.0, False, False, False),
        "read": (Access.NONE, Kind.READ, Body.FUNCTION, 30.0, True, True, True),
        "shell": (Access.OVERLAY, Kind.COMMAND, Body.COMMAND, 120.0, False, False, False),
    }
    assert list(catalog) == sorted(catalog)


def test_reading_manifests_imports_no_tool() -> None:
    program = (
        "import sys; from stockade_daemon.registry import Registry; Registry.load();"
        "print([name for name in sys.modules if name.startswith('stockade_worker')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.stdout.strip() == "[]"


def test_a_manifest_may_state_what_its_value_is(tmp_path: Path) -> None:
    assert load(tmp_path).find("look").output_schema is None
    stated = {"type": "array", "items": {"type": "integer"}}
    tools = load(tmp_path, json.dumps({**GOOD, "output_schema": stated}))
    manifest = tools.find("look")
    tools.check_output(manifest, (1, 2**200))
    with pytest.raises(ValueError, match=r"\$\[1\] must be an integer, not true"):
        tools.check_output(manifest, (1, True))
    with pytest.raises(TypeError):
        manifest.output_schema["items"]["type"] = "string"  # type: ignore[index]


def test_a_good_manifest_is_deeply_frozen(tmp_path: Path) -> None:
    manifest = load(tmp_path).find("look")
    assert manifest.timeout_s == 1.5
    assert manifest.input_schema["required"] == ("path",)
    with pytest.raises(TypeError):
        manifest.input_schema["properties"]["path"] = 1  # type: ignore[index]


def schema(**changes: Any) -> Change:
    return lambda manifest: manifest["input_schema"].update(changes)


def path_schema(**changes: Any) -> Change:
    return lambda manifest: manifest["input_schema"]["properties"]["path"].update(changes)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (lambda m: m.update(acess=m.pop("access")), "acess", "unknown key 'acess'; did you mean 'access'?"),
        (lambda m: m.update(zzzz=1), "zzzz", "unknown key 'zzzz'; the keys are name, description"),
        (lambda m: m.pop("observes"), "", "missing 'observes'"),
        (lambda m: m.update(name="Look"), "name", "must be of a-z 0-9 _"),
        (lambda m: m.update(name="other"), "name", "the file's own name"),
        (lambda m: m.update(description=" "), "description", "must be text"),
        (lambda m: m.update(access="all"), "access", "must be one of none, read, overlay; it is 'all'"),
        (lambda m: m.update(kind=1), "kind", "must be one of read, write, command; it is 1"),
        (lambda m: m.update(body="program"), "body", "must be one of function, command"),
        (lambda m: m.update(timeout_s=0), "timeout_s", "must be a number above 0"),
        (lambda m: m.update(timeout_s=True), "timeout_s", "it is True"),
        (lambda m: m.update(timeout_s="3"), "timeout_s", "it is '3'"),
        (lambda m: m.update(timeout_s=10**400), "timeout_s", "at most 86400"),
        (lambda m: m.update(output_bytes=1.0), "output_bytes", "must be an integer"),
        (lambda m: m.update(parallel_safe=1), "parallel_safe", "must be true or false; it is 1"),
        (lambda m: m.update(card_title="{nothing}"), "card_title", "{nothing} is no argument"),
        (lambda m: m.update(card_title="{path.x}"), "card_title", "{path.x} is no argument"),
        (lambda m: m.update(card_title="{path!r}"), "card_title", "is no argument"),
        (lambda m: m.update(card_title="{"), "card_title", "is no template"),
        (lambda m: m.update(input_schema=True), "input_schema", "input_schema must be an object"),
        (schema(type="array", items={}), "input_schema", "input_schema.type must be 'object'"),
        (schema(additionalProperties=True), "input_schema", "additionalProperties must be false"),
        (schema(patternProperties={}), "input_schema", "patternProperties is not supported"),
        (schema(**{"$ref": "http://localhost/x"}), "input_schema", "input_schema.$ref is not supported"),
        (schema(required=["pfad"]), "input_schema", "names 'pfad', which is not one of the properties"),
        (schema(oneOf=[{"required": ["path"]}]), "input_schema", "must list two or more choices"),
        (schema(oneOf=[{"required": ["path"]}, {"type": "object"}]), "input_schema", "must be of the form"),
        (path_schema(type=["string", "null"]), "input_schema", "properties.path.type must be one of"),
        (path_schema(format="uri"), "input_schema", "properties.path.format is not supported for type string"),
        (path_schema(minLength=-1), "input_schema", "must be a count"),
        (path_schema(description=""), "input_schema", "description must be text"),
        (path_schema(minimum=1, maxItems=2), "input_schema", "maxItems is not supported"),
        (path_schema(type="array"), "input_schema", "properties.path.items must be an object"),
        (lambda m: m.update(output_schema={"type": "text"}), "output_schema", "output_schema.type must be one of"),
        (
            lambda m: m.update(output_schema={"type": "string", "format": "uri"}),
            "output_schema",
            "output_schema.format is not supported for type string",
        ),
        (
            lambda m: m.update(output_schema={"type": "object", "properties": {}}),
            "output_schema",
            "output_schema.additionalProperties must be false: what the schema does not name is always refused",
        ),
        (
            lambda m: m.update(output_schema={"type": "string", "title": "\x1b[2J"}),
            "output_schema",
            "it has the character U+001B",
        ),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, change: Change, key: str, words: str) -> None:
    manifest = json.loads(json.dumps(GOOD))
    change(manifest)
    text = json.dumps(manifest, indent=1)
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    line = text[: text.find(f'"{key}"')].count("\n") + 1 if key else 1
    assert str(caught.value).startswith(f"{tmp_path}/look.json:{line}: ")
    assert words in str(caught.value)


def test_every_fault_of_a_schema_is_in_one_message(tmp_path: Path) -> None:
    manifest = json.loads(json.dumps(GOOD))
    manifest["input_schema"]["properties"]["path"] = {"type": "text"}
    manifest["input_schema"]["additionalProperties"] = True
    with pytest.raises(ConfigurationError, match=r"additionalProperties must.*; .*no description: add one; .*path"):
        load(tmp_path, json.dumps(manifest))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a manifest"),
        ("[]", "a manifest is a JSON object"),
        ('{"name": "look", "name": "look"}', "stands twice"),
    ],
)
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        load(tmp_path, text)
    assert f"{tmp_path}/look.json" in str(caught.value)


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1"])
def test_a_pattern_that_is_none_or_could_run_for_ever_is_refused(tmp_path: Path, pattern: str) -> None:
    manifest = json.loads(json.dumps(GOOD))
    manifest["input_schema"]["properties"]["path"]["pattern"] = pattern
    with pytest.raises(ConfigurationError, match="look: the input_schema"):
        load(tmp_path, json.dumps(manifest))


def test_a_directory_without_manifests_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no tool manifest"):
        Registry.load(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Registry.load(tmp_path / "none")


def test_an_unknown_tool_is_refused_with_the_nearest_name_and_the_list() -> None:
    registry = Registry.load()
    with pytest.raises(ArgumentsRefusal) as caught:
        registry.find("shel")
    assert caught.value.code == "UNKNOWN_TOOL"
    assert "Did you mean 'shell'?" in caught.value.message
    assert ", ".join(manifest.name for manifest in registry.catalog()) in caught.value.message
    with pytest.raises(ArgumentsRefusal, match=r"There is no tool ''\. Call one of"):
        registry.find("")
