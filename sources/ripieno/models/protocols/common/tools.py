"""The tools that a client declares, for itself or for its server, and tools on a wire with a search of its own.

Clients repeat the same tools in every request. A list is read once and cached by a digest of its text. The text is not
kept, since it may contain keys to other servers.

On a wire with its own tool search, searchable tools are declared with ``defer_loading``, and our search tools are not.
The provider searches and loads them, and its model calls a tool that it has found by its name.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ripieno.ensembles import Definition, Invoker
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.jsonvalues import encode
from ripieno.models.protocol import HostedTool, Native, Request
from ripieno.models.protocols.common.encoding import Define, definitions
from ripieno.models.protocols.common.requests import strict_of, tables_in
from ripieno.schemas import Schema
from ripieno.values import Value

#: Maximum bytes of all cached lists, and of one list.
_BYTES = 32 * 1024 * 1024
_SHARE = _BYTES // 4
#: A compiled schema takes about ten times its text, and a regular expression up to a megabyte.
_TIMES = 10
_EXPRESSION = 1024 * 1024
_HOSTED = "hosted"
_Source = TypeVar("_Source")
_Result = TypeVar("_Result")


class Declared(Value, kw_only=True):
    """A client's tools. ``names`` maps each tool's namespace (or "") and name to its exposed name."""

    tools: tuple[Definition, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    names: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict[tuple[str, str], str])
    #: Whether an exposed name differs from the client's name, as in every namespace.
    renamed: bool = False

    @classmethod
    def of(cls, tools: Iterable[Definition], hosted: Iterable[HostedTool] = ()) -> "Declared":
        """The tools of a wire without namespaces. Errors: ``RequestInvalidity`` for a duplicate name."""
        names: dict[tuple[str, str], str] = {}
        kept = tuple(tools)
        for tool in kept:
            if ("", tool.name) in names:
                raise doubled(tool.name)
            names["", tool.name] = tool.exposed or tool.name
        return cls(tools=kept, hosted=tuple(hosted), names=names)

    def exposed(self, name: str, namespace: str = "") -> str | None:
        """The exposed name of a tool; None if it is undeclared, or ambiguous without its namespace."""
        found = self.names.get((namespace, name))
        if found is None and not namespace and self.renamed:
            others = [exposed for (_, inner), exposed in self.names.items() if name in (inner, exposed)]
            return others[0] if len(others) == 1 else None
        return found


Reader = Callable[[Sequence[Native]], Declared]


def described(invoker: Invoker) -> dict[str, Any]:
    """The name of a tool, and its description, if there is one."""
    return {"name": invoker.exposed} | ({"description": invoker.description} if invoker.description else {})


def client_function(function: Native, schema: Mapping[str, Any] | None, missing: str) -> Definition:
    """A function that the client runs. Errors: ``InputError`` with the text ``missing`` if it has no name."""
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise InputError(missing)
    return Definition(
        name=name,
        exposed=name,
        description=str(function.get("description") or ""),
        schema=Schema.of(schema or {"type": "object"}),
        hosted="caller",
    )


def doubled(name: str) -> RequestInvalidity:
    return RequestInvalidity(f"Two tools have the name {name!r}: name each once.", parameter="tools")


def remembered(read: Reader) -> Callable[[Native], Declared]:
    """Caches ``read`` for the ``tools`` of a request, by their text. Errors: ``InputError``."""
    kept: dict[bytes, tuple[Declared, int]] = {}

    def declared(native: Native) -> Declared:
        tools = tables_in(native, "tools")
        if not tools:
            return Declared()
        encoded = encode(tools)
        key = hashlib.sha256(encoded).digest()
        found = kept.pop(key, None)
        if found is not None:
            # Most recently used last.
            kept[key] = found
            return found[0]
        made = read(tools)
        size = len(encoded) * _TIMES + encoded.count(b'"pattern') * _EXPRESSION
        if size <= _SHARE:
            kept[key] = (made, size)
            _evict(kept)
        return made

    return declared


def _evict(kept: dict[bytes, tuple[Declared, int]]) -> None:
    """Removes the least recently used lists until the rest fits."""
    lists = tuple(kept.items())  # A snapshot: another thread may change the dict.
    over = sum(size for _, (_, size) in lists) - _BYTES
    for key, (_, size) in lists:
        if over <= 0:
            return
        kept.pop(key, None)
        over -= size


def one_by_one(read: Callable[[Native], Definition | HostedTool | None]) -> Callable[[Native], Declared]:
    """A cached reader for a wire that declares each tool separately; None from ``read`` is ignored."""

    def each(tools: Sequence[Native]) -> Declared:
        found = [placed(place, read, tool) for place, tool in enumerate(tools)]
        own = [one for one in found if isinstance(one, Definition)]
        return Declared.of(own, (one for one in found if isinstance(one, HostedTool)))

    return remembered(each)


def placed(place: int, read: Callable[[_Source], _Result], tool: _Source) -> _Result:
    """The result of ``read``; an error names the tool's position."""
    try:
        return read(tool)
    except RequestInvalidity:
        raise
    except InputError as error:
        raise RequestInvalidity(f"tools[{place}]: {error}", parameter=f"tools[{place}]") from error


def hosted_word(tool: HostedTool, name: str = "") -> str:
    """The word for a hosted tool, or one tool of a server, in ``tool_choice`` and ``allowed_tools``.

    No exposed name can equal it.
    """
    return "|".join((_HOSTED, tool.kind, tool.label, name))


def hosted_named(word: str) -> HostedTool | None:
    """The hosted tool of such a word; None for another tool's exposed name."""
    parts = word.split("|")
    if len(parts) != len(("hosted", "kind", "label", "name")) or parts[0] != _HOSTED:
        return None
    _, kind, label, name = parts
    return HostedTool(kind=kind, label=label, names=(name,) if name else None)


def declare(asked: Request, name: str, make: Define, search: Mapping[str, Any]) -> bytes | None:
    """The tools of a request as a JSON array; None if there are none.

    ``search`` is the wire's search tool. If the model has the capability ``tool_search``, it is declared, and each
    searchable tool with ``defer_loading``. Otherwise our own search tools are declared. Errors: as ``strict_of``.
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
        # The last tool gets the cache mark, which is not allowed on a tool with ``defer_loading``.
        kept = offer.encodings[key] = b"[" + b",".join((*searchable, *sent, encode(search))) + b"]"
    return kept
