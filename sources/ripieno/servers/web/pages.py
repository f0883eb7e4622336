"""The files of the page, compressed, and the headers with which a browser gets them."""

import base64
import gzip
import hashlib
import pathlib
import re
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response

from ripieno.exceptions import InputError
from ripieno.values import Value

#: The folder with the files of the page.
PAGE = pathlib.Path(__file__).parents[2] / "data" / "web"
#: The name of the page's only policy of Trusted Types.
POLICY = "ripieno"
#: The headers of every answer. Nothing is stored, framed, guessed, or sent to other sites. Only the files of the page,
#: which are the same for all, are kept by browsers, and asked about each time.
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
_SANDBOX = "default-src 'none'; sandbox"
#: The comments of a script that have lines of their own: a tenth of the bytes of the whole page.
_COMMENT = re.compile(rb"^[ \t]*(?://.*|/\*\*.*\*/)$", re.MULTILINE)
_INLINE = re.compile(rb"<script(?![^>]*\bsrc\b)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


class Page:
    """The document and the files of a folder, read and compressed once. Our scripts are sent without their comments.

    Answers of the API are never compressed: the length of a text would tell what secrets it has in common with others.
    Errors: ``InputError`` if the files cannot be read.
    """

    def __init__(self, folder: pathlib.Path = PAGE) -> None:
        try:
            paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            read = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
            document = read.pop("index.html")
        except (OSError, KeyError) as error:
            raise InputError(f"The page cannot be read from {folder}: {error}. Install ripieno again.") from error
        self._files = {name: _File.of(name, content, _SANDBOX) for name, content in read.items()}
        self._document = _File.of("index.html", document, content_policy(document))

    def document(self, headers: Headers) -> Response:
        """The document, which loads nothing from elsewhere, as an answer to a request with these headers."""
        return self._document.respond(headers)

    def file(self, name: str, headers: Headers) -> Response | None:
        """A file of the page; None if there is none of this name."""
        found = self._files.get(name)
        return None if found is None else found.respond(headers)


class _File(Value, kw_only=True):
    """A file of the page. ``packed`` is its gzip, if that is shorter."""

    content: bytes
    packed: bytes | None
    tag: str
    media_type: str
    policy: str

    @classmethod
    def of(cls, name: str, content: bytes, policy: str) -> "_File":
        if name.endswith(".js") and "/" not in name:
            # The lines stay, so that errors name the same ones. What is vendored is as published.
            content = _COMMENT.sub(b"", content)
        packed = gzip.compress(content, 9, mtime=0)
        return cls(
            content=content,
            packed=packed if len(packed) < len(content) else None,
            tag=hashlib.sha256(content).hexdigest()[:32],
            media_type=_TYPES.get(pathlib.PurePosixPath(name).suffix, "text/plain; charset=utf-8"),
            policy=policy,
        )

    def respond(self, asked: Headers) -> Response:
        """The file as the browser accepts it, or 304 if it has this one already."""
        packed = self.packed if _takes_gzip(asked.get("accept-encoding", "")) else None
        headers = {
            "content-security-policy": self.policy,
            "cache-control": "no-cache",
            "vary": "accept-encoding",
            # The two forms are different bytes, and have different tags.
            "etag": f'"{self.tag}"' if packed is None else f'"{self.tag}.gzip"',
        }
        known = (one.strip().removeprefix("W/") for one in asked.get("if-none-match", "").split(","))
        if headers["etag"] in known:
            return Response(status_code=304, headers=headers)
        if packed is not None:
            headers["content-encoding"] = "gzip"
        return Response(self.content if packed is None else packed, headers=headers, media_type=self.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether the header ``Accept-Encoding`` allows gzip (RFC 9110, section 12.5.3)."""
    for one in accepted.lower().split(","):
        name, _, weight = one.replace(" ", "").partition(";")
        if name == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight)
    return False


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
