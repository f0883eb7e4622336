"""Saves what of a result is no text as files: images, sounds and documents, named by number and kind."""

import mimetypes
import os
import pathlib
from collections.abc import Iterator

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, ResultCanister

_KINDS = {ImageContent: "image", AudioContent: "sound", DocumentContent: "document"}
#: What the table of the standard library lacks.
_ENDINGS = {"audio/wav": ".wav", "text/markdown": ".md"}


def save(result: ResultCanister, folder: pathlib.Path) -> Iterator[str]:
    """Writes the files, and gives a line for each: where it is. A file that is there already stays as it is.

    The numbers are those of the contents in the result, from 1. Errors: ``OSError``.
    """
    for number, content in enumerate(result.content, 1):
        if not isinstance(content, ImageContent | AudioContent | DocumentContent):
            continue
        kind = _KINDS[type(content)]
        if content.data is None:
            yield f"Not saved: {kind} {number} is at {content.url}"
            continue
        yield f"Saved: {_write(folder, f'{number}-{kind}', _ending(content.mime_type), content.data)}"


def _ending(mime_type: str) -> str:
    plain = mime_type.partition(";")[0].strip().lower()
    return _ENDINGS.get(plain) or mimetypes.guess_extension(plain, strict=False) or ".bin"


def _write(folder: pathlib.Path, stem: str, ending: str, data: bytes) -> pathlib.Path:
    """Writes a new file. Nothing is replaced, and no link is followed."""
    path, attempt = folder / f"{stem}{ending}", 1
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            attempt += 1
            path = folder / f"{stem}-{attempt}{ending}"
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path
