"""Allowances of submitted runs, as the journal has them: any worker applies them, and any program takes them back.

The record of the answer gives one, and a record ``revoked`` takes it back. Nothing else has them.
"""

import datetime
from collections.abc import Mapping, Sequence

from ripieno.approvals.allowances import Allowance
from ripieno.jsonvalues import canonical
from ripieno.storage.journal import Journal
from ripieno.storage.journal.lines import COLUMNS, Line

#: For how long an allowance of a submitted run counts, as an approval does.
LIFETIME = datetime.timedelta(days=7)


def recorded_allowances(
    journal: Journal, *, owner: str | None = None, conversation: str | None = None
) -> Mapping[tuple[str, str], Sequence[Allowance]]:
    """The allowances that count now, by owner and conversation; of all owners or conversations, if none is named.

    Errors: ``InputError``.
    """
    filters = {"owner": owner, "conversation": conversation}
    wanted = {name: journal.redactor.text(value) for name, value in filters.items() if value is not None}
    query = (
        f"SELECT {COLUMNS} FROM lines WHERE stage IN ('answered', 'revoked') "
        f"{''.join(f'AND {name} = ? ' for name in wanted)}"
        "AND body ->> '$.details.allowance' IS NOT NULL ORDER BY number"
    )
    with journal.database.using("read") as connection:
        lines = [Line(*row) for row in connection.execute(query, tuple(wanted.values())).fetchall()]
    found: dict[tuple[str, str], dict[str, Allowance]] = {}
    for line in lines:
        given = found.setdefault((line.owner, line.conversation), {})
        identifier, one = _read(line)
        given.pop(identifier, None)
        if one is not None:
            given[identifier] = one
    current = {key: [one for one in given.values() if not one.over] for key, given in found.items()}
    return {key: given for key, given in current.items() if given}


def _read(line: Line) -> tuple[str, Allowance | None]:
    """The identifier of an allowance, and the allowance; None if it was taken back."""
    assert line.record is not None
    details = line.record.details
    identifier = str(details["allowance"])
    if line.stage == "revoked":
        return identifier, None
    allowance = Allowance(
        identifier=identifier,
        tool=line.tool,
        arguments=canonical(details["arguments"]).decode() if "arguments" in details else None,
        at=datetime.datetime.fromisoformat(str(details["allowed"])),
        until=datetime.datetime.fromisoformat(str(details["until"])),
        workspace=str(details["workspace"]),
    )
    return identifier, allowance
