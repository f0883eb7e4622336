"""The tools that a client declares: those that it runs, and those that it wants its server to run.

Clients declare the same tools with every request. A list of them is read once, and remembered by a digest of its text:
nothing of the text is kept, for clients write their keys to other servers into it.

The tools of an offer on a wire that has a search of its own: searchable ones are declared, and not loaded.

The provider searches and loads them; its model calls what it has found by its name. Our own search is not declared.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ripieno.ensembles import Definition
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.jsonvalues import encode
from ripieno.models.protocol import HostedTool, Native, Request
from ripieno.models.protocols.common.encoding import Define, definitions
from ripieno.models.protocols.common.requests import strict_of, tables_in

#: How many bytes all lists that are remembered may take, and one of them.
_BYTES = 32 * 1024 * 1024
_SHARE = _BYTES // 4
#: Compiled, a schema takes some ten times its text, but a regular expression up to a megabyte.
_TIMES = 10
_EXPRESSION = 1024 * 1024
_HOSTED = "hosted"
_Said = TypeVar("_Said")
_Read = TypeVar("_Read")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a client declares. ``names`` has the exposed name of each tool, by its namespace (or "") and its name."""

    tools: tuple[Definition, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    names: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict[tuple[str, str], str])
    #: Whether any tool has another name for a model than for the client: all have that are in a namespace.
    renamed: bool = False

    @classmethod
    def of(cls, tools: Iterable[Definition], hosted: Iterable[HostedTool] = ()) -> "Declared":
        """What these are together, on a wire without namespaces. Errors: ``RequestInvalidity`` for a doubled name."""
        names: dict[tuple[str, str], str] = {}
        kept = tuple(tools)
        for tool in kept:
            if ("", tool.name) in names:
                raise doubled(tool.name)
            names["", tool.name] = tool.exposed or tool.name
        return cls(tools=kept, hosted=tuple(hosted), names=names)

    def exposed(self, name: str, namespace: str = "") -> str | None:
        """The exposed name of a tool; None where it is not declared. Without its namespace, one must be alone in it."""
        found = self.names.get((namespace, name))
        if found is None and not namespace and self.renamed:
            others = [exposed for (_, inner), exposed in self.names.items() if name in (inner, exposed)]
            return others[0] if len(others) == 1 else None
        return found


#: What somebody declares who declares nothing.
NOTHING = Declared()
Reader = Callable[[Sequence[Native]], Declared]


def doubled(name: str) -> RequestInvalidity:
    """Two tools of one name cannot be told apart."""
    return RequestInvalidity(f"Two tools have the name {name!r}: name each once.", parameter="tools")


def remembered(read: Reader) -> Callable[[Native], Declared]:
    """The same for the ``tools`` of a request, read once for each text. Errors: ``InputError``."""
    kept: dict[bytes, tuple[Declared, int]] = {}

    def declared(native: Native) -> Declared:
        tools = tables_in(native, "tools")
        if not tools:
            return NOTHING
        encoded = encode(tools)
        key = hashlib.sha256(encoded).digest()
        found = kept.pop(key, None)
        if found is not None:
            # The one that was used last stands last.
            kept[key] = found
            return found[0]
        made = read(tools)
        size = len(encoded) * _TIMES + encoded.count(b'"pattern') * _EXPRESSION
        if size <= _SHARE:
            kept[key] = (made, size)
            _let_go(kept)
        return made

    return declared


def _let_go(kept: dict[bytes, tuple[Declared, int]]) -> None:
    """Forgets what was used longest ago, until the rest is small enough."""
    lists = tuple(kept.items())  # At once: another thread may change it.
    over = sum(size for _, (_, size) in lists) - _BYTES
    for key, (_, size) in lists:
        if over <= 0:
            return
        kept.pop(key, None)
        over -= size


def one_by_one(read: Callable[[Native], Definition | HostedTool | None]) -> Callable[[Native], Declared]:
    """The same for a wire on which each tool is declared for itself; one that is None is left out."""
    return remembered(functools.partial(_each, read))


def _each(read: Callable[[Native], Definition | HostedTool | None], tools: Sequence[Native]) -> Declared:
    found = [one for place, tool in enumerate(tools) if (one := placed(place, read, tool)) is not None]
    return Declared.of(
        (one for one in found if isinstance(one, Definition)), (one for one in found if isinstance(one, HostedTool))
    )


def placed(place: int, read: Callable[[_Said], _Read], tool: _Said) -> _Read:
    """Something of a tool, read; an error says which of them it is."""
    try:
        return read(tool)
    except RequestInvalidity:
        raise
    except InputError as error:
        raise RequestInvalidity(f"tools[{place}]: {error}", parameter=f"tools[{place}]") from error


# A choice among tools names hosted ones with a word that no exposed name can be.


def hosted_word(tool: HostedTool, name: str = "") -> str:
    """The word by which ``Controls.tool_choice`` and ``allowed_tools`` name a hosted tool, or one tool of a server."""
    return "|".join((_HOSTED, tool.kind, tool.label, name))


def hosted_named(word: str) -> HostedTool | None:
    """The hosted tool that such a word names; None for the exposed name of another tool."""
    parts = word.split("|")
    if len(parts) != len(("hosted", "kind", "label", "name")) or parts[0] != _HOSTED:
        return None
    _, kind, label, name = parts
    return HostedTool(kind=kind, label=label, names=(name,) if name else None)


def declare(asked: Request, name: str, make: Define, search: Mapping[str, Any]) -> bytes | None:
    """The tools of a request as a JSON array; None when there are none.

    ``search`` is the wire's search tool. If the model has the capability ``tool_search``, it is declared, and each
    searchable tool with ``defer_loading``. Otherwise our own tools for it are declared.
    Errors: ``InputError``, as ``strict_of`` says.
    """
    offer, strict = asked.offer, strict_of(asked.controls, asked.capabilities)
    helpers = offer.helpers
    if helpers is None or not asked.capabilities.get("tool_search", False):
        return definitions(offer, name, make, strict=strict)
    key = (name, strict, "searched")
    kept = offer.encodings.get(key)
    if kept is None:
        searchable = [encode({**make(one, strict=strict), "defer_loading": True}) for one in offer.searchable]
        sent = [
            encode(make(one, strict=strict))
            for one in offer.invokers
            if one.hosted != "provider" and one is not helpers.search and one is not helpers.call
        ]
        # The last one is where a cache is marked, which no tool may be that is not loaded.
        kept = offer.encodings[key] = b"[" + b",".join((*searchable, *sent, encode(search))) + b"]"
    return kept
