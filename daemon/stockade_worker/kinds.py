"""What a file is, by its first bytes; names say nothing.

The signatures are those of the formats' specifications: PNG (ISO/IEC 15948), JPEG (ISO/IEC 10918), GIF89a, WebP
(RIFF), ELF, ZIP, gzip (RFC 1952), PDF (ISO 32000), SQLite 3. Daemon and body both ask here, so that
what a body says is looked at again.
"""

from typing import Final

MOST_IMAGE_BYTES: Final = 1024 * 1024  # shown of an image: it is a part of the recorded result, and of one message

_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_OTHERS: Final = (
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "an SQLite database"),
)
_NAMES: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}


def image(data: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP image; None for anything else."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _IMAGES if data.startswith(signature)), None)


def image_name(kind: str) -> str:
    """`image/png` as `PNG`."""
    return _NAMES[kind]


def described(data: bytes) -> str | None:
    """What a file that is no text is, for messages; None where nothing tells."""
    kind = image(data)
    if kind is not None:
        return f"a {image_name(kind)} image"
    return next((what for signature, what in _OTHERS if data.startswith(signature)), None)
