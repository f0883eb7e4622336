"""The stored items to which the items of an input refer, by their identifiers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import encode
from ripieno.servers.gateway.stored.requests import NO_ITEM, not_found, reference_in, response_of
from ripieno.storage.responses.conversations import ConversationStore
from ripieno.storage.responses.rows import ChainTooLong
from ripieno.storage.responses.store import ResponseStore


class ReferredItems:
    """The references of an input. They are measured before they are read: a few may name much, or the same often.

    Foreign items are unknown. The methods use the database.
    """

    def __init__(
        self, responses: ResponseStore, conversations: ConversationStore, caller: str, items: Sequence[Any]
    ) -> None:
        self._stores = responses, conversations
        self._caller = caller
        self._items = items
        self._names = [reference_in(item) for item in items]
        #: The responses that have some of the items, by the beginning of their identifiers.
        self._owners: dict[str, str | None] = {}

    def __bool__(self) -> bool:
        return any(name is not None for name in self._names)

    def measure(self) -> int:
        """The bytes that are to be read. Errors: ``ChainTooLong``."""
        size, (responses, conversations) = 0, self._stores
        for name in filter(None, dict.fromkeys(self._names)):
            beginning = response_of(name)
            if beginning is not None and beginning not in self._owners:
                found = responses.beginning(self._caller, beginning)
                self._owners[beginning] = found and found[0]
                size += found[1] if found else 0
            size = self._bounded(size + conversations.item_size(self._caller, name))
        return size

    def resolve(self) -> tuple[list[Any], int]:
        """The items, with those to which they refer in their places, and the bytes of these. After ``measure``.

        Errors: ``Refused`` if one is unknown; ``ChainTooLong``.
        """
        found, size = self._read(), 0
        sizes: dict[str, int] = {}
        resolved = list(self._items)
        for place, name in enumerate(self._names):
            if name is None:
                continue
            if name not in found:
                raise not_found(NO_ITEM, f"input[{place}]")
            if name not in sizes:
                sizes[name] = len(encode(found[name]))
            size = self._bounded(size + sizes[name])
            resolved[place] = found[name]
        return resolved, size

    def _read(self) -> Mapping[str, Any]:
        """The items by their identifiers; each response is read once, and only one is in memory at a time."""
        found: dict[str, Any] = {}
        responses, conversations = self._stores
        names = {name for name in self._names if name}
        for identifier in filter(None, self._owners.values()):
            row = responses.load(self._caller, identifier)
            for item in () if row is None else (*row.body["input"], *row.body["output"]):
                if item.get("id") in names:
                    found.setdefault(item["id"], item)
        for name in names - {*found}:
            item = conversations.item(self._caller, name)
            if item is not None:
                found[name] = item
        return found

    def _bounded(self, size: int) -> int:
        most = self._stores[0].limits.chain
        if size > most:
            raise ChainTooLong(
                f"The items to which the input refers have more than {most} bytes, with the responses that they are "
                "in, so they are not read. Send the items themselves, or fewer of them."
            )
        return size
