"""The parts of a form of calls."""

# ruff: noqa: RUF001  models write these characters

from collections.abc import Callable, Sequence

from ripieno.models.protocols.text_calls.grammar import Body, Head, Tools
from ripieno.models.protocols.text_calls.values import Found
from ripieno.values import Value

#: A namespace in front of a tag's name.
NAMESPACE = r"(?:[A-Za-z][\w.-]{0,31}:|｜DSML｜)"


class Variant(Value, kw_only=True):
    """One continuation of a form after its opener.

    ``read`` gives the calls in the text of a frame; None if there are none, and the frame is text. A frame without
    ``read`` is only a wrapper. ``following`` is the form of each further call right behind.
    """

    head: Head
    body: Callable[[], Body]
    read: Callable[[str, Tools], Sequence[Found] | None] | None = None
    #: Texts that belong to the wrapper, too, from here on.
    ends: tuple[str, ...] = ()
    #: The channel of the text that follows; None leaves it unchanged.
    channel: str | None = None
    following: "Variant | None" = None


class Form(Value, kw_only=True):
    """One form of calls. Its ``opener`` may be anywhere, or only where a line or the whole text ``begins``.

    ``namespaced``: a namespace may follow the opener's first character, and the variants depend on it. Each of the
    ``examples`` has one or more calls.
    """

    name: str
    opener: str
    variants: Callable[[str], tuple[Variant, ...]]
    begins: str = ""
    namespaced: bool = False
    examples: tuple[str, ...] = ()
