"""Change notifications, and the difference between two listings in words."""

import logging
from collections.abc import Callable, Mapping


def difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """``New: a, b. Gone: c. Changed: d.``, for names with values; empty if nothing differs."""
    kinds = (
        ("New", [name for name in after if name not in before]),
        ("Gone", [name for name in before if name not in after]),
        ("Changed", [name for name in after if name in before and after[name] != before[name]]),
    )
    return " ".join(f"{kind}: {', '.join(names)}." for kind, names in kinds if names)


_logger = logging.getLogger(__name__)


class Watchers:
    """Callbacks without arguments, called in the order of registration. ``what`` names the watched object."""

    def __init__(self, what: str) -> None:
        self._what = what
        #: Each under its own key, so that one function may be registered twice.
        self._callbacks: dict[object, Callable[[], None]] = {}

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Registers a callback; returns a function that removes it, which may be called twice."""
        key = object()
        self._callbacks[key] = callback

        def leave() -> None:
            self._callbacks.pop(key, None)

        return leave

    def tell(self) -> None:
        """Calls all callbacks, but none that was removed meanwhile. An exception is logged and does not spread."""
        for key, callback in tuple(self._callbacks.items()):
            if key not in self._callbacks:
                continue
            try:
                callback()
            except Exception:
                _logger.exception("A function that watches %s failed.", self._what)
