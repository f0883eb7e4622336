"""The addresses of PostgreSQL servers. Messages repeat no part of one that cannot be read: it may be a password."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ripieno.descriptors.journal import UNREADABLE, address_fault, refuse_address

#: What a server, or a pool of connections, says to a wrong address. Before there is a connection, there is no code.
WRONG = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "permission denied",
    "no such database",
    "no such user",
)
#: The step that lets a role create the tables.
GRANT = "Let its operator grant CREATE once."
#: The next step after what a server, or a pool of connections, says to a wrong address or role. The first that fits.
_STEPS = (
    ("CONNECT privilege", "Let its operator grant CONNECT on it."),
    ("permission denied for database", GRANT),
    ("permission denied", "Let its operator grant access to it."),
    ("password", "Check the user and the password in its address."),
    ("authentication failed", "Check the user and the password in its address."),
    ("pg_hba.conf", "Let its operator permit this user and machine in pg_hba.conf."),
    ('role "', "Check the user in its address, or let its operator create it: createuser --pwprompt USER"),
    ("no such database", "Check the name in its address, or let its operator create it: createdb --owner USER NAME"),
    ("no such user", "Check the user in its address, or let its operator create it: createuser --pwprompt USER"),
    ('database "', "Check the name in its address, or let its operator create it: createdb --owner USER NAME"),
)


def next_step(reason: str) -> str:
    """What to do about a server's reason not to serve; empty if that is not known."""
    return next((step for part, step in _STEPS if part in reason), "")


def read_address(address: str) -> dict[str, Any]:
    """The parameters of an address, as libpq names them. Errors: ``InputError``."""
    if fault := address_fault(address):
        raise refuse_address(fault)
    try:
        return conninfo_to_dict(address)
    except psycopg.Error:
        raise refuse_address(UNREADABLE) from None
