"""``[journal]``: whether conversations are recorded, and in which database."""

import re
from typing import Any

from ripieno.descriptors.reader.alternatives import Variables
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
from ripieno.lazy.expressions import expression
from ripieno.values import Value

_SCHEME = r"postgres(?:ql)?://"
#: Of a password that is not percent-encoded, libpq takes a part for a host, a port or a database, and its messages
#: have these.
_ADDRESS = expression(
    _SCHEME + r"(?:[^\s/@]*@)?"
    r"(?:\[[^\]\s/@]*\]|[^\s/@:?\[\],]*)(?::\d*)?(?:,(?:\[[^\]\s/@]*\]|[^\s/@:?\[\],]*)(?::\d*)?)*"
    r"(?:/[^\s/@?]*)?(?:\?\S*)?"
)
_ENCODING = expression(r"%(?![0-9A-Fa-f]{2})")
_EXPECTED = "must begin with postgresql://, such as postgresql://user@host/database"
#: Advice on an address that cannot be read, to follow its name.
UNREADABLE = (
    "cannot be read as postgresql://user:password@host:port/database?parameter=value. In the user, the password and "
    "the values, write @ as %40, : as %3A, / as %2F, % as %25 and a space as %20"
)


def address_fault(address: str) -> str:
    """The fault of the address of a database, to follow its name; empty without one. It repeats no part."""
    if re.match(_SCHEME, address) is None:
        return _EXPECTED
    return "" if _ADDRESS.fullmatch(address) and not _ENCODING.search(address) else UNREADABLE


def refuse_address(fault: str) -> InputError:
    """The error for an address with a fault."""
    return InputError(f"The address of the journal {fault}.")


class JournalAddress(Value, kw_only=True):
    """The address of a PostgreSQL database, with variables. Messages never repeat it: it may have a password."""

    expected: str = "the address of a PostgreSQL database, with {env:NAME} where a variable goes"
    variables: Variables = Variables()

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        text = self.variables.read(value, path, problems)
        if text is INVALID:
            return INVALID
        template = Template.parse(text, variables=True)
        if template.literal is not None:
            fault = address_fault(template.literal)
        else:
            # The rest is checked when the values are known.
            begins_well = not template.beginning or re.match(_SCHEME, template.beginning)
            fault = "" if begins_well else _EXPECTED
        if fault:
            problems.add(path, f"{subject(path)} {fault}")
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": rf"^(?:{_SCHEME}|\{{env:)"}


JOURNAL = Table(
    "[journal]",
    "A record of all calls and conversations, in the user's state folder or in a database.",
    (
        Key(
            "enabled",
            Flag(),
            "Whether it is written: by every command that calls tools, by its servers, and by programs that assemble "
            "this configuration. If absent, programs do not write it.",
            example=True,
        ),
        Key(
            "url",
            JournalAddress(),
            "A PostgreSQL database, for several machines; paused calls and approvals are there, too. Needs "
            "ripieno[postgres]. If absent, all is in a file in the user's state folder.",
            example="{env:JOURNAL_URL}",
        ),
    ),
)
