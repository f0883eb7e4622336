"""A response as text: its content, or a description of other content, without secrets."""

import hashlib
import re

from ripieno.canisters.contents import Content, media
from ripieno.origins.http.client.request import Fetched
from ripieno.storage.redaction import NO_SECRETS, Redactor
from ripieno.values import Value

_KIND = re.compile(r"\s*([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+)")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
#: Text types besides ``text/*``, by name and by ending.
_TEXTS = frozenset(
    f"application/{name}"
    for name in (
        *("json", "xml", "javascript", "ecmascript", "x-javascript", "x-ndjson", "ndjson", "jsonlines", "graphql"),
        *("yaml", "x-yaml", "toml", "sql", "rtf", "x-sh", "x-www-form-urlencoded", "problem+json"),
    )
)
_ENDINGS = ("+json", "+xml", "+yaml")
#: Encodings that servers name; some of Python's others are not text encodings.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|latin-?1|iso-8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]"
    r"|shift_jis|euc-jp|iso-2022-jp|gb2312|gbk|gb18030|big5|euc-kr",
    re.IGNORECASE,
)
#: Headers that the head shows.
_SHOWN = (
    *("content-type", "content-length", "content-disposition", "content-range", "last-modified", "etag", "location"),
    *("link", "allow", "retry-after", "www-authenticate"),
)
_LINE = 500


class Wording(Value, kw_only=True):
    """A response in words. ``redactor`` knows the secrets of its request, which a server may repeat."""

    fetched: Fetched
    redactor: Redactor = NO_SECRETS

    @property
    def kind(self) -> str:
        """The media type in lower case; empty if there is none."""
        match = _KIND.match(self.fetched.headers.get("content-type", ""))
        return match[1].lower() if match else ""

    @property
    def text(self) -> str | None:
        """The body, if it is text."""
        data, kind = self.fetched.body, self.kind
        declared = kind.startswith("text/") or kind in _TEXTS or kind.endswith(_ENDINGS)
        charset = _CHARSET.search(self.fetched.headers.get("content-type", ""))
        if charset is not None and _CHARSETS.fullmatch(charset[1]) is None:
            charset = None
        if declared and charset is not None:
            return self.redactor.text(data.decode(charset[1], "replace"))
        if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return None
        if not declared and kind not in ("", "application/octet-stream"):
            return None
        try:
            return self.redactor.text(
                data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
            )
        except UnicodeDecodeError:
            return self.redactor.text(data.decode("latin-1")) if declared else None

    @property
    def content(self) -> str:
        """The text, or a bracketed description of other content."""
        text = self.text
        if text is not None:
            return text
        kind = self.kind or "content that is not text"
        return f"[{kind}: {len(self.fetched.body)} bytes, sha256:{hashlib.sha256(self.fetched.body).hexdigest()}]"

    @property
    def media(self) -> Content | None:
        """The body, if it is an image, a sound or a PDF, which models read. None if it is empty or has a secret."""
        kind = self.kind
        known = kind.startswith(("image/", "audio/")) or kind == "application/pdf"
        if not known or not self.fetched.body or self.text is not None or self.leaks():
            return None
        return media(self.fetched.body, kind)

    @property
    def status(self) -> str:
        """The status in one line: ``HTTP 200 OK``."""
        return self._line(f"HTTP {self.fetched.status} {self.fetched.reason}".rstrip())

    @property
    def head(self) -> str:
        """Status, final URL, redirects and selected headers."""
        lines = [self.status, self._line(f"url: {self.fetched.url}")]
        lines += [self._line(f"redirected: {hop.status} to {hop.url}") for hop in self.fetched.hops]
        shown = ((name, self.fetched.headers.get(name)) for name in _SHOWN)
        lines += [self._line(f"{name}: {value}") for name, value in shown if value]
        return "\n".join(lines)

    def leaks(self) -> bool:
        """Whether the body contains a secret."""
        return self.redactor.data(self.fetched.body) != self.fetched.body

    def _line(self, text: str) -> str:
        shown = self.redactor.text(text)
        cut = shown if len(shown) <= _LINE else shown[: _LINE - 1] + "…"
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cut)
