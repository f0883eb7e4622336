"""Keeps the secrets of a request out of what the libraries beneath it log, and out of what is said of it.

Takes secrets out of texts that people read.
"""

import base64
import contextlib
import contextvars
import json
import logging
import urllib.parse
from collections.abc import Generator, Iterable, Iterator

#: Characters of the shortest secret that is looked for: a shorter one would take words apart.
_SHORTEST = 8
#: What stands where a secret was.
HIDDEN = "[hidden]"


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text with ``[hidden]`` for each secret; the longest goes first, since one may be part of another."""
    for secret in sorted(map(str.strip, secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text


#: A filter holds for the records of one logger, and not for those below it: each is named.
_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11")
#: Characters of the shortest part of a secret that is looked for.
_SHORTEST_PART = 10
_SECRETS: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("secrets of a request", default=())


class _Muting(logging.Filter):
    """Lets every record pass, without the secrets of the request that it is written for."""

    def filter(self, record: logging.LogRecord) -> bool:
        secrets = _SECRETS.get()
        if secrets:
            said = record.getMessage()
            kept = hide(said, secrets)
            if kept != said:
                record.msg, record.args = kept, ()
        return True


_MUTING = _Muting()


def forms(secrets: Iterable[str]) -> tuple[str, ...]:
    """The secrets as they are, and as URLs, JSON, credentials and logs write them; base64 also of texts around them."""
    written: dict[str, None] = {}
    for secret in secrets:
        encoded = secret.encode("utf-8", "surrogatepass")
        for form in (
            secret,
            urllib.parse.quote(encoded, safe=""),
            urllib.parse.quote_plus(encoded),
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            base64.b64encode(encoded).decode(),
            *_cores(encoded),
            repr(encoded)[2:-1],
        ):
            written[form] = None
    return tuple(written)


def _cores(secret: bytes) -> Iterator[str]:
    """What base64 makes of a secret within a longer text: by where it begins, what its neighbours do not change."""
    for offset, first in ((0, 0), (1, 2), (2, 3)):
        last = (offset + len(secret)) * 8 // 6
        core = base64.b64encode(bytes(offset) + secret).decode()[first:last]
        if len(core) >= _SHORTEST_PART:
            yield core
            yield core.replace("+", "-").replace("/", "_")


@contextlib.contextmanager
def muted(secrets: tuple[str, ...]) -> Generator[None, None, None]:
    """Inside, no log of a library has one of these forms of secrets."""
    for name in _LOGGERS:
        # Adding the same filter again changes nothing.
        logging.getLogger(name).addFilter(_MUTING)
    token = _SECRETS.set(secrets)
    try:
        yield
    finally:
        _SECRETS.reset(token)
