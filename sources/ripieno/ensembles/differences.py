"""The difference between two sets of tools, in words."""

from collections.abc import Mapping


def difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """``New: a, b. Gone: c. Changed: d.``, for names with values; empty if nothing differs."""
    kinds = (
        ("New", [name for name in after if name not in before]),
        ("Gone", [name for name in before if name not in after]),
        ("Changed", [name for name in after if name in before and after[name] != before[name]]),
    )
    return " ".join(f"{kind}: {', '.join(names)}." for kind, names in kinds if names)
