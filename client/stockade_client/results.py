"""What a call came to, as frozen values."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

# A JSON value as the json module makes it: integers of any size, key order kept.
Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

# What may be given as a JSON value: any mapping or sequence of such.
JsonInput: TypeAlias = bool | int | float | str | Sequence["JsonInput"] | Mapping[str, "JsonInput"] | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed."""

    code: str  # a stable code, for example FS_NOT_OBSERVED
    message: str  # one sentence; where a model can recover it ends with the remedy
    domain: str  # arguments | policy | tool | sandbox | infrastructure | deadline | unknown
    retry: str  # safe | unsafe | never

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A sandbox layer, and whether it was in force."""

    name: str
    held: bool
    reason: str = ""  # why it is not held


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call used. Zero is "not measured" for all but wall_s."""

    wall_s: float = 0.0  # seconds from dispatch to the end of the body, without the time people thought
    cpu_s: float = 0.0  # user + system seconds of the worker's process tree
    max_rss_bytes: int = 0  # largest memory of all processes of the tree together at one time
    read_bytes: int = 0  # read from storage by a command's processes
    written_bytes: int = 0  # written to storage by them
    source: str = ""  # of cpu_s and max_rss_bytes: cgroup | sampled, empty where not measured


@dataclass(frozen=True, slots=True)
class Resolution:
    """What somebody found out about a call that ended with TOOL_OUTCOME_UNKNOWN."""

    outcome: Literal["done", "not-done"]  # whether it did what it was to do
    note: str  # how that is known; may be empty
    time_ms: int  # when it was recorded; milliseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model."""

    mime: str  # image/png, image/jpeg, image/gif, image/webp
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CallResult:
    """The one recorded result of a call.

    `ok` is false only when the call failed: a command's non-zero exit is `ok` with `value["exit_code"]`. A
    failed call may have a value as well: what a command had written until it was stopped.
    """

    call_id: str
    tool: str
    ok: bool
    value: Json  # None also where the call has no value
    content: tuple[str, ...]  # text blocks for the model
    error: Failure | None  # None when ok
    usage: Usage
    layers: tuple[Layer, ...]
    profile_digest: str  # SHA-256, lower-case hex, over the profile's text and those that it extends
    images: tuple[Image, ...] = ()  # for the model, after the text
    # The completed card, what a person is shown: title, view, ok, and what the view has (generic, terminal, diff, read,
    # search). The `card` of the tool/result event.
    card: dict[str, Json] = field(default_factory=dict)
    resolution: Resolution | None = None  # beside an outcome that was unknown, once somebody has found out

    @property
    def text(self) -> str:
        """The content as one text."""
        return "\n".join(self.content)

    def field(self, name: str) -> Json:
        """`value[name]` where the value is an object that has it, else None."""
        return self.value.get(name) if isinstance(self.value, dict) else None

    def as_json(self) -> dict[str, Json]:
        """The object that `stockade call --json` prints."""
        error: Json = None
        if self.error is not None:
            error = {
                "code": self.error.code,
                "message": self.error.message,
                "domain": self.error.domain,
                "retry": self.error.retry,
            }
        resolved: dict[str, Json] = {}
        images: dict[str, Json] = {"images": [_image(each) for each in self.images]} if self.images else {}
        if self.resolution is not None:
            found = self.resolution
            resolved["resolution"] = {"outcome": found.outcome, "note": found.note, "time_ms": found.time_ms}
        return {
            "id": self.call_id,
            "tool": self.tool,
            "ok": self.ok,
            "value": self.value,
            "content": list(self.content),
            "error": error,
            "layers": [{"name": layer.name, "held": layer.held, "reason": layer.reason} for layer in self.layers],
            "usage": {
                "wall_s": self.usage.wall_s,
                "cpu_s": self.usage.cpu_s,
                "max_rss_bytes": self.usage.max_rss_bytes,
                "read_bytes": self.usage.read_bytes,
                "written_bytes": self.usage.written_bytes,
                "source": self.usage.source,
            },
            **images,
            **resolved,
        }


def _image(each: Image) -> Json:
    return {"mime": each.mime, "data": base64.b64encode(each.data).decode("ascii")}
