"""Permissions by *always*: given with ``ripieno approvals approve``, listed and ended with ``approvals allowed``."""

import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import click

from ripieno.approvals import Approve
from ripieno.approvals.allowances import Allowance, covers, ways
from ripieno.approvals.recorded_allowances import recorded_allowances
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.display import clean
from ripieno.cli.common.options import Format, common, formats
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.conversations.selection import command_lines
from ripieno.cli.journal.selection import own_place, owners
from ripieno.conducting.paused import Paused
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.journal import Journal

#: Characters of an identifier that people see.
_SHORT = 8


@click.command()
@click.argument("conversation", default="")
@click.option("--end", metavar="ID", help="Take this one back. The beginning of its identifier is enough.")
@owners
@formats
@common
def allowed(conversation: str, end: str | None, owner: str | None, output: Format) -> None:
    """List what runs of workers may call without a question, because of "always", or take it back.

    The beginning of an identifier names a CONVERSATION. Each ends by itself after seven days. If one is taken back, a
    worker asks again after a second at most, and calls that have started go on.

    \b
    Example:
      ripieno approvals allowed
      ripieno approvals allowed 3f9a --end 71c2
    """
    found = [one for one in _recorded() if one[1].startswith(conversation) and owner in (None, one[0])]
    if end is not None:
        _end([one for one in found if one[2].identifier.startswith(end)], end)
    elif output == "json":
        print_json([{"conversation": name, "owner": whose, **_mapping(one)} for whose, name, one in found])
    elif not found:
        click.echo("Nothing is allowed without a question.")
    else:
        # Mostly, there are no owners.
        shown = any(whose for whose, _, _ in found)
        print_table(
            ["ALLOWED", "CONVERSATION", *(["OWNER"] if shown else []), "UNTIL (UTC)", "CALLS"],
            [
                [one.identifier[:_SHORT], name[:_SHORT], *([whose or "-"] if shown else []), _until(one), str(one)]
                for whose, name, one in found
            ],
        )


def also_allowed(paused: Paused, wanted: Sequence[Waiting], answer: Approve) -> Sequence[Waiting]:
    """The other calls of a conversation that wait and that an *always* to some allows, too.

    Errors: ``InputError`` for a call that is asked about each time.
    """
    for one in wanted:
        if not _is_waivable(one):
            name = f"{one.invocation} of {paused.short}"
            raise InputError(f"{one.tool} is asked about each time. Approve {name} without --always.")
    requests: list[Any] = [one.request for one in wanted]
    return [
        other
        for other in paused.unanswered
        if other not in wanted
        and _is_waivable(other)
        and any(covers(one, other.request, exact=answer.exact) for one in requests)
    ]


def say_allowed(wanted: Sequence[Waiting], answer: Approve) -> None:
    """Says what an *always* allows, and for how long."""
    said: dict[str, str] = {}
    for waiting in wanted:
        request: Any = waiting.request
        offered = ways(request["tool"], request["effect"], lasting=bool(request.get("lasting")), elsewhere=True)
        way = offered[-1] if answer.exact else offered[0]
        said[way.calls] = way.terms
    for calls, terms in said.items():
        click.echo(clean(f"Allowed: {calls}. {terms}"))


def _is_waivable(waiting: Waiting) -> bool:
    request: Any = waiting.request
    return "always" in request.get("choices", ())


def _recorded() -> Sequence[tuple[str, str, Allowance]]:
    """The allowances of the user's journal, each after its owner and conversation."""
    place = own_place()
    if isinstance(place, pathlib.Path) and not place.exists():
        return ()
    with Journal(place) as journal:
        return [(*key, one) for key, given in recorded_allowances(journal).items() for one in given]


def _end(found: Sequence[tuple[str, str, Allowance]], end: str) -> None:
    """Takes the only one of these back. Errors: ``NameAbsence``; ``InputError`` for several."""
    if not found:
        raise NameAbsence("allowance", end, hint="To list them: ripieno approvals allowed")
    if len(found) > 1:
        several = len({whose for whose, _, _ in found}) > 1
        commands = [
            shlex.join(
                [
                    "ripieno",
                    "approvals",
                    "allowed",
                    name,
                    *(["--owner", whose] if several else []),
                    "--end",
                    one.identifier,
                ]
            )
            for whose, name, one in found
        ]
        raise InputError(f"Several allowances begin with {end!r}:{command_lines(commands)}")
    ((owner, name, one),) = found
    with Journal(own_place()) as journal:
        journal.record([one.revocation(owner, name)])
    click.echo(clean(f"Taken back: {one}"))


def _until(allowance: Allowance) -> str:
    return "-" if allowance.until is None else f"{allowance.until:%Y-%m-%d %H:%M}"


def _mapping(allowance: Allowance) -> dict[str, Any]:
    until = allowance.until and allowance.until.isoformat()
    return {**allowance.mapping(), "until": until, "workspace": allowance.workspace or None}
