"""Who wants to know that something has changed. What one of them does wrong is logged, and hinders nobody.

What one listing has that another has not, in words that a person reads.
"""

import logging
from collections.abc import Callable, Mapping


def difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """``New: a, b. Gone: c. Changed: d.``, for names with a value each; empty where nothing differs."""
    kinds = (
        ("New", [name for name in after if name not in before]),
        ("Gone", [name for name in before if name not in after]),
        ("Changed", [name for name in after if name in before and after[name] != before[name]]),
    )
    return " ".join(f"{kind}: {', '.join(names)}." for kind, names in kinds if names)


_logger = logging.getLogger(__name__)


class Watchers:
    """Functions without arguments, told in the order in which they came. ``what`` names for the log what they watch."""

    def __init__(self, what: str) -> None:
        self._what = what
        #: By an object of its own each, so that one function may watch twice.
        self._callbacks: dict[object, Callable[[], None]] = {}

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """From now on it is told. The function that is returned ends that, and may be called twice."""
        key = object()
        self._callbacks[key] = callback

        def leave() -> None:
            self._callbacks.pop(key, None)

        return leave

    def tell(self) -> None:
        """Tells all who watch now; whoever leaves meanwhile is told no more."""
        for key, callback in tuple(self._callbacks.items()):
            if key not in self._callbacks:
                continue
            try:
                callback()
            except Exception:
                _logger.exception("A function that watches %s failed.", self._what)
