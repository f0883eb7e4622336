"""Reasoning that people may read: in the contents that providers require back, and in a content of its own."""

from collections.abc import Iterable, Iterator

from ripieno.canisters import Content, OpaqueContent
from ripieno.canisters.events import ContentSealed, Event, InvocationSealed, ReasoningDelta, TurnEnded
from ripieno.jsonvalues import freeze, is_list, is_table

#: The protocol of an opaque content with the ``text`` of reasoning that no provider requires back. No wire sends it.
PEOPLE = "people"
#: Characters of such a text that are kept.
_MOST = 60_000
#: The keys of texts in the contents of a kind, the first that has one; a list has its texts in parts.
_KEYS = {
    "thinking": ("thinking",),
    "thought": ("text",),
    "reasoning": ("reasoning_content", "reasoning", "summary", "content", "text"),
}


def reasoning_in(content: OpaqueContent) -> str:
    """The reasoning in a content, as its deltas had it; empty for all else, and if it is encrypted."""
    for key in _KEYS.get(content.kind, ()):
        value = content.data.get(key)
        if isinstance(value, str) and value:
            return value
        if is_list(value) and value:
            parts = [one.get("text") for one in value if is_table(one)]
            return "\n\n".join(part for part in parts if isinstance(part, str) and part)
    return ""


def is_for_people(content: Content) -> bool:
    """Whether a content is reasoning that no wire sends."""
    return isinstance(content, OpaqueContent) and content.protocol == PEOPLE


class ReasoningKeeper:
    """Makes a content of the reasoning of a turn of which its wire makes none, so that it is recorded."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def hear(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events. The added content is before the next one that is complete, or before the end."""
        for event in events:
            if isinstance(event, ReasoningDelta):
                self._pieces.append(event.text)
            elif self._pieces and isinstance(event, ContentSealed | InvocationSealed | TurnEnded):
                text = "".join(self._pieces)
                self._pieces.clear()
                content = event.content if isinstance(event, ContentSealed) else None
                if text.strip() and not (isinstance(content, OpaqueContent) and reasoning_in(content)):
                    yield ContentSealed(_for_people(text))
            yield event


def _for_people(text: str) -> OpaqueContent:
    left = len(text) - _MOST
    kept = text if left <= 0 else f"{text[:_MOST]}\n… ({left} more characters)"
    return OpaqueContent(protocol=PEOPLE, kind="reasoning", data=freeze({"text": kept}))
