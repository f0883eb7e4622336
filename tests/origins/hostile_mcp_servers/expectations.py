"""What is expected of an encounter with a server of the zoo: a connection, a result, or a named error, in time."""

import dataclasses

#: How a server is reached, and which era of the protocol it speaks.
STDIO = "stdio-2025-11-25"
STDIO_MODERN = "stdio-2026-07-28"
HTTP = "http-2026-07-28"
HTTP_LEGACY = "http-2025-11-25"
BOTH = (STDIO, HTTP)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``category`` is that of the call's fault, ``refused`` for no connection, ``""`` for a result; ``words`` are
    a pattern that is found in the message, or in the text. ``seconds`` bound connecting and each call.

    ``after`` is what becomes of a call of the tool ``echo`` then: as ``category``.
    """

    behaviour: str
    category: str = ""
    words: str = ""
    over: tuple[str, ...] = BOTH
    seconds: float = 8.0
    after: str = ""
    alert: str = ""
    #: It sends much: our memory may not grow by it.
    flood: bool = False


def give(words: str, *behaviours: str, **more: object) -> list[Case]:
    """Cases whose calls succeed."""
    return [Case(behaviour=one, words=words, **more) for one in behaviours]  # type: ignore[arg-type]


def fail(category: str, words: str, *behaviours: str, **more: object) -> list[Case]:
    """Cases whose calls fail so, while the connection stays."""
    return [Case(behaviour=one, category=category, words=words, **more) for one in behaviours]  # type: ignore[arg-type]


def refuse(words: str, *behaviours: str, **more: object) -> list[Case]:
    """Cases that never connect."""
    return fail("refused", words, *behaviours, **more)
