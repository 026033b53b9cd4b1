"""Narrowing a profile that is in force: for a session, or for one call of it. Nothing here can widen one.

A tightening is TOML with the keys of a profile. What it gives replaces what the profile says, and has to be as narrow
or narrower; lists of what is refused or required are added to, so that nobody has to know what they hold already. It
becomes the first file of the profile's chain: it is kept with the profile, and counts in its digest.
"""

import functools
from typing import Any, Final

from stockade_daemon import toml_text
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.profiles import chain, keys, read
from stockade_daemon.profiles.chain import File
from stockade_daemon.settings import Key
from stockade_daemon.values import Profile

KEYS: Final[tuple[Key[Any], ...]] = chain.TIGHTENING_KEYS
SOURCE: Final = "tightening"  # what errors call it unless somebody gave it a name


def tighten(base: Profile, wish: bytes, *, source: str = SOURCE) -> Profile:
    """`base` as `wish` narrows it.

    Raises ConfigurationError `source:line:column: …` for every mistake, and for every key that would allow more.
    """
    return _tightened(base.name, base.source, base.text, wish, source)


@functools.lru_cache(maxsize=64)  # it takes milliseconds, and who narrows calls does it again and again
def _tightened(name: str, base: str, text: bytes, wish: bytes, source: str) -> Profile:
    _refuse_what_is_no_limit(wish, source)
    return read.effective((File(name, source, wish, tightens=True), *chain.unpack(text, name=name, source=base)))


def digest(base: Profile, wish: bytes) -> str:
    """The digest that `base` narrowed by `wish` has, whether it may be or not; `base`'s own where `wish` is empty."""
    if not wish:
        return base.digest
    return chain.digest((File(base.name, SOURCE, wish), *chain.unpack(base.text, name=base.name, source=base.source)))


def _refuse_what_is_no_limit(wish: bytes, source: str) -> None:
    document = toml_text.parse(wish, source=source)
    mistakes = [
        document.mistake((name,), f"`{name}` belongs to a profile, and a tightening is none; take it out")
        for name in (keys.DESCRIPTION.name, keys.EXTENDS.name, keys.WIDEN.name)
        if name in document.table
    ]
    if mistakes:
        raise ConfigurationError(*mistakes)
