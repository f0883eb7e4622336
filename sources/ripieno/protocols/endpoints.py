"""Where a provider is, what it is told, and which of that nobody may read."""

import base64
import dataclasses
import functools
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.timeouts import Timeouts
from ripieno.jsonvalues import EMPTY, is_list, is_table
from ripieno.storage.redaction import hide


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a provider is, and what it is told. ``key`` is None for a server that asks for none.

    ``cloud`` names who stands between us and the models: it decides about addresses and signatures, with ``region``,
    ``project`` and ``api_version`` where it has such. Then ``base_url`` may be left empty.
    """

    provider: str
    sdk: str
    base_url: str
    key: str | None = dataclasses.field(default=None, repr=False)
    headers: Mapping[str, str] = dataclasses.field(default=EMPTY, repr=False)
    timeouts: Timeouts = Timeouts()  # noqa: RUF009  frozen
    cloud: str | None = None
    region: str | None = None
    project: str | None = None
    api_version: str | None = None

    @property
    def shown(self) -> str:
        """The address, as errors may show it: without a password or a query."""
        if not self.base_url:
            return " ".join(filter(None, (self.cloud, self.region))) or "its endpoint"
        parts = self._parts
        return "its base_url" if parts is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def place(self) -> str:
        """What tells it from other endpoints."""
        return self.base_url or f"{self.cloud} {self.region} {self.project}"

    @functools.cached_property
    def _parts(self) -> urllib.parse.SplitResult | None:
        try:
            return urllib.parse.urlsplit(self.base_url)
        except ValueError:
            return None

    @functools.cached_property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown, in each form that it may have on its way."""
        found = [self.key or "", *self.headers.values()]
        parts = self._parts
        if parts is not None:
            user, _, password = parts.netloc.rpartition("@")[0].partition(":")
            found.append(password)
            if password:
                plain = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
                found.append(base64.b64encode(plain.encode()).decode())
            found += (value for _, value in urllib.parse.parse_qsl(parts.query))
        # A header's secret may stand behind the name of its scheme.
        found += [value.partition(" ")[2] for value in found]
        found = [*found, *map(urllib.parse.unquote, found), *(urllib.parse.quote(one, safe="") for one in found)]
        return tuple(dict.fromkeys(filter(None, found)))

    def hide(self, text: str) -> str:
        """The text without this endpoint's key, the values of its headers, and what is secret in its address."""
        return hide(text, self.secrets)

    def hide_in(self, value: Any) -> Any:
        """The same for every text in a JSON value."""
        if isinstance(value, str):
            return self.hide(value)
        if is_table(value):
            return {self.hide(str(name)): self.hide_in(one) for name, one in value.items()}
        if is_list(value):
            return [self.hide_in(one) for one in value]
        return value
