"""The files of the page, and the headers with which a browser gets them."""

import base64
import hashlib
import pathlib
import re
from collections.abc import Mapping

from starlette.responses import Response

from ripieno.exceptions import InputError

#: The folder with the files of the page.
PAGE = pathlib.Path(__file__).parents[2] / "data" / "web"
#: The name of the page's only policy of Trusted Types.
POLICY = "ripieno"
#: The headers of every answer. Nothing is stored, framed, guessed, or sent to other sites.
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_INLINE = re.compile(rb"<script(?![^>]*\bsrc\b)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


class Page:
    """The document and the files of a folder, read once. Errors: ``InputError`` if they cannot be read."""

    def __init__(self, folder: pathlib.Path = PAGE) -> None:
        try:
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
            document = self._files.pop("index.html")
        except (OSError, KeyError) as error:
            raise InputError(f"The page cannot be read from {folder}: {error}. Install ripieno again.") from error
        self._document = document
        self._policy = content_policy(document)

    def document(self) -> Response:
        """The document, which loads nothing from elsewhere."""
        return Response(
            self._document,
            headers={"content-security-policy": self._policy},
            media_type=_TYPES[".html"],
        )

    def file(self, name: str) -> Response | None:
        """A file of the page; None if there is none of this name."""
        content = self._files.get(name)
        if content is None:
            return None
        kind = _TYPES.get(pathlib.PurePosixPath(name).suffix, "text/plain; charset=utf-8")
        return Response(content, headers={"content-security-policy": "default-src 'none'; sandbox"}, media_type=kind)


def content_policy(document: bytes) -> str:
    """The Content-Security-Policy of the document: only its own files, and its inline scripts by their hashes."""
    digests = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in _INLINE.findall(document)]
    scripts = " ".join(("'self'", *(f"'sha256-{one}'" for one in digests)))
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            f"trusted-types {POLICY}",
        )
    )
