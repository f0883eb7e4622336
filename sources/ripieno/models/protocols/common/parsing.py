"""A client's request, read: what is the same on all wires."""

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
    said: str = "messages",
    choice: str = "tool_choice",
) -> Asked:
    """What a client asks for; its conversation stands under ``said``, and its choice among tools under ``choice``.

    Errors: ``RequestInvalidity``, which says what is wrong, and where.
    """
    model = native.get("model")
    if not isinstance(model, str) or not model:
        raise RequestInvalidity("The request has no model.", parameter="model")
    if native.get(said) is None:
        raise RequestInvalidity(f"The request has no {said}.", parameter=said)
    where: str | None = None
    try:
        check(native, checks)
        where = "tools"
        tools = declared(native)
        where = None
        wanted = controls(native, tools)
        if wanted.tool_choice is not None or wanted.allowed_tools:
            _settle(wanted, tools, choice)
        where = said
        heard = canisters(native, tools)
    except RequestInvalidity:
        raise
    except InputError as error:
        raise RequestInvalidity(str(error), parameter=where) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise RequestInvalidity(f"The request cannot be read: {error}.", parameter=where) from error
    return Asked(model=model, canisters=heard, tools=tools.tools, hosted=tools.hosted, controls=wanted, native=native)


def _settle(controls: Controls, declared: Declared, parameter: str) -> None:
    """Refuses a choice of what is not declared: ``RequestInvalidity``."""
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
    """A choice names what is not declared."""
    known = ", ".join(sorted({one for _, one in declared.names} | {one.kind for one in declared.hosted}))
    return RequestInvalidity(
        f"{parameter} names {name!r}, which is none of the tools of the request ({known or 'there are none'}): "
        "declare it, or leave it out.",
        parameter=parameter,
    )
