"""Redaction of endpoints' secrets in the logs of HTTP libraries."""

import re

from ripieno.models.transport.endpoints import Endpoint
from ripieno.storage.redaction import HIDDEN, Redactor, redact_logs

_LOGGERS = (
    *("aiohttp.client", "aiohttp.internal"),
    "httpx2",
    *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
    *("anthropic", "anthropic._base_client", "openai", "openai._base_client"),
    *("botocore.auth", "botocore.credentials", "botocore.tokens"),
)
_TOKENS = re.compile(r"(x-amz-security-token['\"]?\s*[:=]\s*['\"]?)[^\s'\"]+", re.IGNORECASE)


class _TokenRedactor(Redactor):
    """Replaces the token that a cloud's credential chain has found; only its header contains it."""

    def __bool__(self) -> bool:
        return True

    def text(self, text: str) -> str:
        return _TOKENS.sub(rf"\1{HIDDEN}", text)


_TOKEN_REDACTOR = _TokenRedactor()


def mute(endpoint: Endpoint) -> None:
    """Redacts the secrets of an endpoint in logs, for the endpoint's lifetime."""
    redact_logs(_LOGGERS, _TOKEN_REDACTOR, endpoint.redactor)
