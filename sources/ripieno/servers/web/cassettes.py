"""Recorded cassettes for the page: which there are, and the steps of one. Nothing about them is live."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.requests import Request

from ripieno.exceptions import RipienoError
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.requests import Answered
from ripieno.servers.http.limits import Refused


class Cassettes(Protocol):
    """The cassettes that a page may show."""

    async def names(self) -> Sequence[str]:
        """Their names."""
        ...

    async def steps(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The steps of one of them: ``kind``, ``title`` and ``text``. Errors: ``RipienoError`` if it cannot be read."""
        ...


class CassettePages:
    """One method for each route about cassettes. Only the person of this machine ("") sees them."""

    def __init__(self, cassettes: Cassettes | None) -> None:
        self._cassettes = cassettes

    async def index(self, _: Request, owner: str) -> Answered:
        return {"live": False, "cassettes": [{"name": name} for name in await self._names(owner)]}

    async def steps(self, request: Request, owner: str) -> Answered:
        name = str(request.path_params["name"])
        if self._cassettes is None or name not in await self._names(owner):
            raise Refused(Refusal(status=404, code="not_found", message="There is no such cassette."))
        try:
            return {"name": name, "live": False, "steps": list(await self._cassettes.steps(name))}
        except RipienoError as error:
            # Whatever is wrong is in the file: a person should read it.
            raise Refused(Refusal(status=422, code="unreadable", message=str(error))) from error

    async def _names(self, owner: str) -> Sequence[str]:
        return [] if owner or self._cassettes is None else await self._cassettes.names()
