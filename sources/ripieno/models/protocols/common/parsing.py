"""Reads a client's request; common to all wires."""

from collections.abc import Callable

from ripieno.canisters import Canister, Controls
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.models.protocol import Asked, Native
from ripieno.models.protocols.common.requests import Checks, check
from ripieno.models.protocols.common.tools import Declared, hosted_named


def read_request(
    native: Native,
    *,
    checks: Checks,
    declared: Callable[[Native], Declared],
    canisters: Callable[[Native, Declared], tuple[Canister, ...]],
    controls: Callable[[Native, Declared], Controls],
    conversation: str = "messages",
    choice: str = "tool_choice",
) -> Asked:
    """A client's request. ``conversation`` and ``choice`` are the keys of the conversation and of the tool choice.

    Errors: ``RequestInvalidity``, with the reason and the parameter.
    """
    model = native.get("model")
    if not isinstance(model, str) or not model:
        raise RequestInvalidity("The request has no model.", parameter="model")
    if native.get(conversation) is None:
        raise RequestInvalidity(f"The request has no {conversation}.", parameter=conversation)
    where: str | None = None
    try:
        check(native, checks)
        where = "tools"
        tools = declared(native)
        where = None
        wanted = controls(native, tools)
        if wanted.tool_choice is not None or wanted.allowed_tools:
            _check_choice(wanted, tools, choice)
        where = conversation
        read = canisters(native, tools)
    except RequestInvalidity:
        raise
    except InputError as error:
        raise RequestInvalidity(str(error), parameter=where) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise RequestInvalidity(f"The request cannot be read: {error}.", parameter=where) from error
    return Asked(model=model, canisters=read, tools=tools.tools, hosted=tools.hosted, controls=wanted, native=native)


def _check_choice(controls: Controls, declared: Declared, parameter: str) -> None:
    """Refuses the choice of an undeclared tool. Errors: ``RequestInvalidity``."""
    choice = controls.tool_choice
    named = controls.allowed_tools or ()
    if choice not in (None, "auto", "none", "required"):
        named = (*named, choice)
    if named:
        known = set(declared.names.values())
        for name in named:
            if name not in known and hosted_named(name) is None:
                raise unknown(name, declared, parameter)


def unknown(name: object, declared: Declared, parameter: str = "tool_choice") -> RequestInvalidity:
    known = ", ".join(sorted({one for _, one in declared.names} | {one.kind for one in declared.hosted}))
    return RequestInvalidity(
        f"{parameter} names {name!r}, which is not among the tools of the request ({known or 'there are none'}): "
        "declare it, or leave it out.",
        parameter=parameter,
    )
