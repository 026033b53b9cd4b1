"""How a synchronous object stands before its asynchronous counterpart: the same methods, which wait."""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from stockade_client.sync.background import Background, Errands

Inner = TypeVar("Inner")
P = ParamSpec("P")
T = TypeVar("T")


class Face(Generic[Inner]):
    """Made by `connect` and what it gives; usable from any thread that runs no event loop."""

    def __init__(self, background: Background, errands: Errands, inner: Inner) -> None:
        self._background = background
        self._errands = errands
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner).replace("<", "<sync ", 1)

    def _wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._background.wait(function, self._errands)


def waiting(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[Inner], P], T]:
    """The same method, with the same parameters, for a thread that waits for what it returns."""

    @wraps(method)
    def wait(self: Face[Inner], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(partial(method, self._inner, *args, **kwargs))

    return wait
