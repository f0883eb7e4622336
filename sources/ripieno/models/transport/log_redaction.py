"""Keeps secrets out of what the libraries beneath us log, at every level, whoever turned it on."""

import logging
import re
import weakref

from ripieno.models.transport.endpoints import Endpoint
from ripieno.storage.redaction import hide

#: A filter holds for the records of one logger, and not for those below it: each is named.
_LOGGERS = (
    *("aiohttp.client", "aiohttp.internal"),
    "httpx2",
    *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
    *("anthropic", "anthropic._base_client", "openai", "openai._base_client"),
    *("botocore.auth", "botocore.credentials", "botocore.tokens"),
)
#: What a cloud's own chain of credentials has found is known to nobody here: it is told by its name.
_TOKENS = re.compile(r"(x-amz-security-token['\"]?\s*[:=]\s*['\"]?)[^\s'\"]+", re.IGNORECASE)


class _Muting(logging.Filter):
    """Lets every record pass, without the secrets of the endpoints that are in use."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints: weakref.WeakKeyDictionary[object, Endpoint] = weakref.WeakKeyDictionary()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        kept = _TOKENS.sub(r"\1[hidden]", said)
        for endpoint in tuple(self.endpoints.values()):
            kept = hide(kept, endpoint.secrets)
        if kept != said:
            record.msg, record.args = kept, ()
        return True


_MUTING = _Muting()


def mute(holder: object, endpoint: Endpoint) -> None:
    """From now on, and for as long as ``holder`` lives, no log of a library shows the endpoint's secrets."""
    _MUTING.endpoints[holder] = endpoint
    for name in _LOGGERS:
        # Adding the same filter again changes nothing.
        logging.getLogger(name).addFilter(_MUTING)
