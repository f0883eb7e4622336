"""What is the same in every request: what a client asks a server of ours for, and what a model can be asked for.

Parameters of a request that nobody here can honour: each is refused by its name, unless it asks for nothing.

A wire has one table of them. A request is looked through once; what no table has is read elsewhere, or changes nothing.

What several wires say alike of a conversation: what its supervisor says first, and how a document is headed.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, Content, Controls, DocumentCanister, SupervisorCanister, TextualContent
from ripieno.canisters.controls import Format, Reasoning
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, JsonInvalidity, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import EMPTY, freeze, is_list, is_table
from ripieno.models.protocol import Capabilities, Native

#: Efforts that servers know, in our words: the nearest one.
_EFFORTS: Mapping[object, Reasoning] = {
    "none": "none",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def sampling_of(controls: Controls, capabilities: Capabilities, *, default: bool = True) -> dict[str, float]:
    """The sampling controls that are given. Errors: ``InputError`` where the model takes none.

    ``default`` is what holds where the provider's data does not say.
    """
    given = {"temperature": controls.temperature, "top_p": controls.top_p}
    sampling = {name: value for name, value in given.items() if value is not None}
    if sampling and not capabilities.get("sampling", default):
        raise InputError(
            f"This model takes no {' or '.join(sampling)}: leave it out, or set sampling = true in the provider's "
            "capabilities."
        )
    return sampling


def choice_of(controls: Controls, offer: Offer, capabilities: Capabilities) -> str | None:
    """The choice among the tools of an offer that a model can be asked for; None leaves it to the provider.

    Where no tool is allowed, the choice is ``none``. Errors: ``InputError`` where the model cannot be made to call,
    ``NameAbsence`` for a tool that is not offered.
    """
    choice = "none" if controls.allowed_tools == () else controls.tool_choice
    if choice in (None, "auto", "none"):
        return choice
    if not capabilities.get("tool_choice", True):
        raise InputError(
            f"This model cannot be made to call a tool (tool_choice = {choice!r}): leave tool_choice out, or set "
            "tool_choice = true in the provider's capabilities."
        )
    if choice != "required" and choice not in offer.names:
        raise NameAbsence("offered tool", choice, offer.names)
    return choice


def strict_of(controls: Controls, capabilities: Capabilities) -> bool:
    """Whether arguments are held to their schemas. Errors: ``InputError`` where the model does not do that."""
    if controls.strict and not capabilities.get("strict", False):
        raise InputError(
            "This model does not hold arguments to their schemas: leave strict out, or set strict = true in the "
            "provider's capabilities."
        )
    return bool(controls.strict)


def format_of(controls: Controls, capabilities: Capabilities) -> Format | None:
    """What the text of an answer is held to. Errors: ``InputError`` where the model cannot be held to anything.

    A wire's own words are used where the provider's data does not say.
    """
    if controls.format is not None and not capabilities.get("json_mode", True):
        raise InputError(
            f"This model cannot be held to JSON (format = {controls.format.kind!r}): leave format out, or set "
            "json_mode = true in the provider's capabilities."
        )
    return controls.format


def tables_in(native: Native, key: str) -> Sequence[Mapping[str, Any]]:
    """The objects in a list; an absent list has none. Errors: ``InputError``."""
    values = native.get(key)
    if values is None:
        return ()
    if is_list(values):
        for value in values:
            if type(value) is not dict and not is_table(value):
                break
        else:
            return values
    raise RequestInvalidity(f"{key} is a list of objects.", parameter=key)


def table_in(native: Native, key: str) -> Mapping[str, Any]:
    """The object under a key; an absent one is empty. Errors: ``InputError``."""
    value = native.get(key)
    if value is None:
        return EMPTY
    if not is_table(value):
        raise RequestInvalidity(f"{key} is an object.", parameter=key)
    return value


def parts_in(content: object, what: str = "parts") -> Sequence[Any]:
    """The parts of a content, of which a text is one; an empty text has none. Errors: ``InputError``."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not is_list(content):
        raise InputError(f"Content is a text or a list of {what}.")
    return content


def decoded(data: object, where: str = "A part") -> bytes:
    """Bytes that stand as base64. Errors: ``InputError``."""
    try:
        return base64.b64decode(str(data), validate=True)
    except ValueError as error:
        raise InputError(f"{where} holds what is no base64: {error}.") from error


def number_in(native: Native, key: str) -> float | None:
    """The number under a key. Errors: ``InputError``."""
    value = native.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestInvalidity(f"{key} is a number, not {value!r}.", parameter=key)
    return value


def count_in(native: Native, key: str) -> int | None:
    """The whole number from 1 under a key. Errors: ``InputError``."""
    value = number_in(native, key)
    if value is not None and (not isinstance(value, int) or value < 1):
        raise RequestInvalidity(f"{key} is a whole number from 1 on, not {value!r}.", parameter=key)
    return value


def flag_in(native: Native, key: str) -> bool | None:
    """The boolean under a key. Errors: ``InputError``."""
    value = native.get(key)
    if value is not None and not isinstance(value, bool):
        raise RequestInvalidity(f"{key} is true or false, not {value!r}.", parameter=key)
    return value


def texts_in(native: Native, key: str) -> tuple[str, ...] | None:
    """The texts under a key, where one may stand alone; None when there are none. Errors: ``InputError``."""
    value = native.get(key)
    values: object = [value] if isinstance(value, str) else value or ()
    if not is_list(values) or not all(isinstance(one, str) for one in values):
        raise RequestInvalidity(f"{key} is a text or a list of texts.", parameter=key)
    return tuple(values) or None


def effort_in(native: Native, key: str) -> Reasoning | None:
    """How much a model may think: the nearest of our words. Errors: ``InputError`` for an unknown one."""
    value = native.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value not in _EFFORTS:
        words = ", ".join(map(str, _EFFORTS))
        raise RequestInvalidity(f"{key} is one of {words}; not {value!r}.", parameter=key)
    return _EFFORTS[value]


def format_in(form: Native, said: Native, key: str) -> Format | None:
    """What the text of an answer is held to; ``said`` is where a wire has its schema. Errors: ``InputError``."""
    kind = form.get("type")
    if kind is None or kind == "text":
        return None
    if kind == "json_object":
        return Format(kind=kind)
    if kind != "json_schema":
        raise RequestInvalidity(
            f"{key} has the type {kind!r}; known are text, json_object and json_schema.", parameter=key
        )
    return schema_format(
        said.get("schema"),
        key,
        name=str(said.get("name") or ""),
        strict=flag_in(said, "strict"),
        description=str(said.get("description") or ""),
    )


def schema_format(schema: object, key: str, **fields: Any) -> Format:
    """A format with a schema. Errors: ``InputError`` for one that is no object."""
    if not is_table(schema):
        raise RequestInvalidity(f"{key} has no schema: give one, which is an object.", parameter=key)
    try:
        return Format(kind="json_schema", schema=freeze(schema), **fields)
    except JsonInvalidity as error:
        raise RequestInvalidity(f"The schema of {key} is no JSON: {error}", parameter=key) from error


#: Looks at the value of a parameter, whose name comes first. Errors: ``RequestInvalidity``.
Check = Callable[[str, Any], None]
Checks = Mapping[str, Check]
#: How much of a value an error shows.
_SHOWN = 60


def check(native: Native, checks: Checks, within: str = "") -> None:
    """Refuses what a request asks for in vain; null asks for nothing. Errors: ``RequestInvalidity``.

    ``within`` is put before the names, for parameters of an object in the request.
    """
    for key, value in native.items():
        if value is not None and (judge := checks.get(key)) is not None:
            judge(within + key, value)


def refused(why: str) -> Check:
    """Refuses any value. ``why`` is a sentence in which ``{key}`` and ``{value}`` may stand."""

    def judge(key: str, value: Any) -> None:
        raise RequestInvalidity(why.format(key=key, value=_shown(value)), parameter=key)

    return judge


def unless(*harmless: Any, why: str) -> Check:
    """Refuses all values but these, which ask for nothing that is not done anyway."""
    refuse = refused(why)

    def judge(key: str, value: Any) -> None:
        if value not in harmless:
            refuse(key, value)

    return judge


def among(*known: str) -> Check:
    """Refuses a list that has anything but these words."""

    def judge(key: str, value: Any) -> None:
        if not is_list(value):
            raise RequestInvalidity(f"{key} is a list.", parameter=key)
        for one in value:
            if one not in known:
                raise RequestInvalidity(
                    f"{key} has {_shown(one)}, which nobody knows here; known are {', '.join(known)}.", parameter=key
                )

    return judge


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def leading(canisters: Iterable[Canister]) -> Sequence[SupervisorCanister]:
    """The supervisor canisters before all others."""
    found: list[SupervisorCanister] = []
    for canister in canisters:
        if not isinstance(canister, SupervisorCanister):
            break
        found.append(canister)
    return found


def heading_of(document: DocumentCanister) -> str:
    """The line over a document, for wires that have no word for its identifier and its title."""
    title = f": {document.title}" if document.title else ""
    return f"[document {document.identifier}{title}]\n"


def headed(document: DocumentCanister) -> Sequence[Content]:
    """The contents of a document under its heading, which is one text with the first of them."""
    heading, contents = heading_of(document), document.content
    if contents and isinstance(contents[0], TextualContent):
        return (TextualContent(text=heading + contents[0].text), *contents[1:])
    return (TextualContent(text=heading), *contents)
