"""Anchors on paper: the last line of an export, which ``verify`` reads again."""

import json
import pathlib
from typing import Any

from ripieno.exceptions import InputError
from ripieno.journal.lines import Anchor, ascii_json

#: No line of an export is as long as that before its anchor, which is a short one.
_TAIL = 4096


def anchor_line(anchor: Anchor) -> str:
    """``{"anchor":{"digest":"…","number":12}}`` and a newline."""
    return ascii_json({"anchor": {"number": anchor.number, "digest": anchor.digest}}) + "\n"


def read_anchor(path: pathlib.Path) -> Anchor:
    """The anchor on the last line of a file. Errors: ``InputError`` when there is none, ``OSError``."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        lines = file.read().splitlines()
    try:
        told: Any = json.loads(lines[-1])["anchor"]
        number, digest = told["number"], told["digest"]
        if type(number) is not int or number < 0 or len(bytes.fromhex(digest)) != 32:
            raise ValueError
    except (IndexError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} does not end with an anchor. One is on the last line of what is written by: "
            "ripieno journal export --output FILE"
        ) from None
    return Anchor(number=number, digest=digest)
