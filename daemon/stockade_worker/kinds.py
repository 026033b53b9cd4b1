"""What a file that is no text is, by its first bytes; its name says nothing.

The signatures are those of the formats' specifications: ELF, ZIP, gzip (RFC 1952), PDF (ISO 32000), SQLite 3.
"""

from typing import Final

from stockade_worker.frames import image_kind

_OTHERS: Final = (
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "an SQLite database"),
)
_NAMES: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}


def image_name(kind: str) -> str:
    """`image/png` as `PNG`."""
    return _NAMES[kind]


def described(data: bytes) -> str | None:
    """What it is, for messages; None where nothing tells."""
    kind = image_kind(data)
    if kind is not None:
        return f"a {image_name(kind)} image"
    return next((what for signature, what in _OTHERS if data.startswith(signature)), None)
