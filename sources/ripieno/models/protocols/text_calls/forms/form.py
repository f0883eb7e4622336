"""What a form of calls is made of. The forms themselves stand in modules of their own, by family."""

# ruff: noqa: RUF001  models write these signs

import dataclasses
from collections.abc import Callable, Sequence

from ripieno.models.protocols.text_calls.grammar import Body, Head, Tools
from ripieno.models.protocols.text_calls.values import Found

#: A namespace that models put before the name of a tag.
NAMESPACE = r"(?:[A-Za-z][\w.-]{0,31}:|｜DSML｜)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way in which a form goes on after its opener.

    ``read`` gives the calls in the whole text of a frame; None where there are none, and the text is text. Without it
    the frame is only a wrapping. ``following`` is how another call may stand right behind, time and again.
    """

    head: Head
    body: Callable[[], Body]
    read: Callable[[str, Tools], Sequence[Found] | None] | None = None
    #: What is wrapping, too, from here on.
    ends: tuple[str, ...] = ()
    #: Whose words follow: those of the channel of this name; None leaves it as it is.
    channel: str | None = None
    following: "Variant | None" = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of calls: its ``opener`` stands anywhere, or only where a line or the whole text ``begins``.

    ``namespaced``: a namespace may stand in the opener, after its first character, and the variants depend on it.
    ``examples`` are texts, each of which is one call, or several.
    """

    name: str
    opener: str
    variants: Callable[[str], tuple[Variant, ...]]
    begins: str = ""
    namespaced: bool = False
    examples: tuple[str, ...] = ()
