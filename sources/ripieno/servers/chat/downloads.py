"""Contents as answers over HTTP: whole or in part, with headers under which a browser runs and embeds nothing."""

import re

from starlette.responses import Response

from ripieno.canisters import TextualContent
from ripieno.canisters.contents import Content
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.contents import data_of
from ripieno.servers.chat.uploads import type_of
from ripieno.servers.http.limits import Refused

_HEADERS = {
    "accept-ranges": "bytes",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


def download(content: Content, wanted: str | None) -> Response:
    """The bytes of a content. ``wanted`` is the header Range, of which one range is honoured.
    Errors: ``Refused`` for bytes that it does not have.

    Only images of known types, by their own bytes, and plain text are shown; everything else is saved by a browser.
    """
    data = data_of(content)
    kind = "text/plain" if isinstance(content, TextualContent) else type_of(data)
    shown = kind is not None and kind != "application/pdf"
    charset = "; charset=utf-8" if kind == "text/plain" else ""
    headers = {
        **_HEADERS,
        "content-type": f"{kind}{charset}" if shown else "application/octet-stream",
        "content-disposition": "inline" if shown else "attachment",
    }
    begin, end = _range(wanted, len(data))
    if begin >= end:
        message = f"The content has {len(data)} bytes: ask for some of these."
        raise Refused(Refusal(status=416, code="range_not_satisfiable", message=message))
    if (begin, end) == (0, len(data)):
        return Response(data, headers=headers)
    headers["content-range"] = f"bytes {begin}-{end - 1}/{len(data)}"
    return Response(data[begin:end], status_code=206, headers=headers)


def _range(wanted: str | None, size: int) -> tuple[int, int]:
    """The first byte, and that after the last one. Ranges of another form are ignored, as the standard allows."""
    found = _RANGE.fullmatch(wanted or "")
    if found is None or found.group(1) == found.group(2) == "":
        return 0, size
    first, last = found.groups()
    if not first:
        return max(size - int(last), 0), size if int(last) else 0
    return int(first), min(int(last) + 1, size) if last else size
