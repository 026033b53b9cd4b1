"""A declared function as a manifest: types become the schema, the docstring the descriptions.

    str int float bool             string integer number boolean
    Literal["a", "b"]              one of these values, of one type
    list[T]                        a list
    a TypedDict                    an object with these members; NotRequired[T | None] may be left out
    T | None = None                may be left out
    Annotated[T, "text", {…}]      with a description, and more keywords of the schema

Whatever is wrong raises Faulty with the function's line; the daemon judges the manifest again by its own rules.
"""

import inspect
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Union

from stockade_toolkit.contract import Files
from stockade_toolkit.declaring import Declaration

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_HEADINGS = {"args:", "arguments:", "parameters:"}
_DEEPEST = 8  # types within types


class Faulty(Exception):
    """A function that cannot be a tool: the line in its file, what is wrong and what to do."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Described:
    """A tool's manifest as plain data, and how it is called."""

    manifest: dict[str, Any]
    line: int  # of the function in its file
    files: str | None  # the parameter that is given the way to the workspace


def describe(declaration: Declaration) -> Described:
    """Raises Faulty."""
    function = declaration.function
    code = getattr(function, "__code__", None)
    line = code.co_firstlineno if isinstance(code, types.CodeType) else 1
    try:
        return _described(declaration, line)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise Faulty(line, f"the function cannot be described: {type(error).__name__}: {error}") from error


def _described(declaration: Declaration, line: int) -> Described:
    function, name = declaration.function, declaration.name
    if (
        not inspect.isfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
    ):
        raise Faulty(line, f"{name!r} is no plain function; declare a `def` that returns its value")
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    files = [each for each in parameters if hints.get(each) is Files]
    if len(files) > 1:
        raise Faulty(line, f"{name} takes Files twice; one parameter is enough")
    taken = {each: parameter for each, parameter in parameters.items() if each not in files}
    description, texts = _texts(function.__doc__ or "", set(taken))
    if not description:
        raise Faulty(line, f"{name} has no docstring; say in it what the tool does, for the model")
    properties: dict[str, Any] = {}
    required = []
    for each, parameter in taken.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise Faulty(line, f"{name} takes {parameter}; every argument of a tool has a name of its own")
        if each not in hints:
            raise Faulty(line, f"the argument {each!r} of {name} has no type; annotate it")
        properties[each] = _property(name, each, hints[each], parameter, texts.get(each), line)
        if parameter.default is parameter.empty:
            required.append(each)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    facts = dict(declaration.facts)
    output = facts.pop("output")
    if output is not None:
        facts["output_schema"] = _output(name, output, line)
    if facts["kind"] is None:
        facts["kind"] = "command" if facts["access"] == "overlay" else "read"
    if facts["card_title"] is None:
        facts["card_title"] = " ".join([name, *(f"{{{each}}}" for each in required)])
    manifest = {"name": name, "description": description, "input_schema": schema, "body": "function", **facts}
    return Described(manifest, line, files[0] if files else None)


def _property(
    tool: str, name: str, hint: Any, parameter: inspect.Parameter, text: str | None, line: int
) -> dict[str, Any]:
    try:
        hint, optional = _without_none(hint)
        schema = _schema(hint, 0)
    except TypeError as error:
        raise Faulty(line, f"the argument {name!r} of {tool} {error}") from None
    if text:
        schema["description"] = text
    if "description" not in schema:
        raise Faulty(
            line, f"the argument {name!r} of {tool} has no description; add a line `{name}: …` to the docstring"
        )
    if parameter.default is parameter.empty:
        if optional:
            raise Faulty(line, f"the argument {name!r} of {tool} may be None and has no default; add `= None`")
    elif parameter.default is not None:
        schema["default"] = parameter.default
    elif not optional:
        raise Faulty(line, f"the argument {name!r} of {tool} has the default None; annotate it with `| None`")
    return schema


def _output(tool: str, hint: Any, line: int) -> dict[str, Any]:
    try:
        return _schema(hint, 0)
    except TypeError as error:
        raise Faulty(line, f"the output of {tool} {error}") from None


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The type without `| None`, and whether it had one. An Annotated stays around what is left."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, optional = _without_none(hint.__origin__)
        return typing.Annotated[(inner, *hint.__metadata__)], optional
    if typing.get_origin(hint) in (Union, types.UnionType):
        left = [each for each in typing.get_args(hint) if each is not types.NoneType]
        if len(left) == 1:
            return left[0], True
        raise TypeError("is one of several types, which a schema here cannot say; choose one")
    return hint, False


def _schema(hint: Any, depth: int) -> dict[str, Any]:
    """Raises TypeError; its text goes on after "the argument 'x' of y"."""
    if depth > _DEEPEST:
        raise TypeError(f"has types more than {_DEEPEST} deep; flatten it")
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        schema = _schema(hint.__origin__, depth)
        for extra in hint.__metadata__:
            if isinstance(extra, str):
                schema["description"] = extra
            elif isinstance(extra, dict):
                schema.update(extra)
        return schema
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is Literal:
        values = list(typing.get_args(hint))
        kinds = {type(each) for each in values}
        if len(kinds) == 1 and (kind := kinds.pop()) in (str, int):
            return {"type": _PLAIN[kind], "enum": values}
        raise TypeError("is a Literal of other things than texts, or integers; use one of the two")
    if origin is list:
        return {"type": "array", "items": _schema(typing.get_args(hint)[0], depth + 1)}
    if typing.is_typeddict(hint):
        return _members(hint, depth)
    raise TypeError(
        f"has the type {hint!r}; use str, int, float, bool, Literal, list, a TypedDict, or one of them | None"
    )


def _members(hint: Any, depth: int) -> dict[str, Any]:
    properties = {}
    for name, each in typing.get_type_hints(hint, include_extras=True).items():
        if typing.get_origin(each) in (typing.Required, typing.NotRequired):
            each = typing.get_args(each)[0]
        each, optional = _without_none(each)
        if optional and name in hint.__required_keys__:
            raise TypeError(f"has a member {name!r} that may be None and not be left out; make it NotRequired[…]")
        properties[name] = _schema(each, depth + 1)
        if "description" not in properties[name]:
            raise TypeError(f'has a member {name!r} without a description; write Annotated[…, "what it is"]')
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [name for name in properties if name in hint.__required_keys__]
    return {**schema, "required": required} if required else schema


def _texts(docstring: str, names: set[str]) -> tuple[str, dict[str, str]]:
    """The description, and those of arguments: lines `name: text`, each with the deeper lines that follow it."""
    description: list[str] = []
    found: dict[str, list[str]] = {}
    for name, text in _lines(docstring, names):
        if name is None:
            description.append(text)
        else:
            found.setdefault(name, []).append(text)
    paragraphs = re.split(r"\n\s*\n", "\n".join(description).strip())
    return "\n\n".join(" ".join(each.split()) for each in paragraphs), {
        name: " ".join(" ".join(lines).split()) for name, lines in found.items()
    }


def _lines(docstring: str, names: set[str]) -> Iterator[tuple[str | None, str]]:
    current: str | None = None
    indent = 0
    for line in inspect.cleandoc(docstring).splitlines():
        deep = len(line) - len(line.lstrip())
        begun = re.match(r"\s*\*{0,2}(\w+)(?: \([^)]*\))?:\s+(.*)", line)
        if begun and begun[1] in names:
            current, indent = begun[1], deep
            yield current, begun[2]
        elif current is not None and line.strip() and deep > indent:
            yield current, line
        else:
            current = None
            if line.strip().lower() not in _HEADINGS:
                yield None, line
