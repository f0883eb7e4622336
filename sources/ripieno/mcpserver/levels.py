"""How much clients of the handshake era want to be told in words (``logging/setLevel``)."""

import weakref
from typing import Any, get_args

from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types import EmptyResult, LoggingLevel, SetLevelRequestParams

_ORDER: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
_DEFAULT: LoggingLevel = "info"


class Levels:
    """The level of each connection, as long as it lasts."""

    def __init__(self) -> None:
        #: By the identity of what a client said of itself, which is one object for each connection.
        self._levels: dict[int, LoggingLevel] = {}

    async def take(self, context: ServerRequestContext[Any], params: SetLevelRequestParams) -> EmptyResult:
        """Handles ``logging/setLevel``."""
        peer = context.session.client_params
        if peer is not None:
            if id(peer) not in self._levels:
                weakref.finalize(peer, self._levels.pop, id(peer), None)
            self._levels[id(peer)] = params.level
        return EmptyResult()

    def allows(self, session: ServerSession, level: LoggingLevel) -> bool:
        """Whether the client of this connection wants to be told something of that level."""
        wanted = self._levels.get(id(session.client_params), _DEFAULT)
        return _ORDER.index(level) >= _ORDER.index(wanted)
