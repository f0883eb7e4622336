"""Reasoning that people may read, in the opaque contents that providers require back."""

from ripieno.canisters import OpaqueContent
from ripieno.jsonvalues import is_list, is_table

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
