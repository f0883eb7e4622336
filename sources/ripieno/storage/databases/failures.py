"""Failures of PostgreSQL: whether trying again may help, and the next step of an operator."""

import psycopg
from psycopg import errors

#: Errors besides operational ones that another connection may end: after a failover, or when this program was stopped.
_PASSING = (errors.ReadOnlySqlTransaction, errors.IdleInTransactionSessionTimeout)
#: Operational errors that trying again does not end.
_LASTING = (
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
    errors.DiskFull,
    errors.ProgramLimitExceeded,
)
#: What a server, or a pool of connections, says to a wrong address. Before there is a connection, there is no code.
_WRONG = (
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
    """The next step after a server's reason not to serve; empty if that is not known."""
    return next((step for part, step in _STEPS if part in reason), "")


def is_outage(error: object) -> bool:
    """Whether trying again may help after an error of the driver. An unknown reason, in any language, may pass."""
    if isinstance(error, _PASSING):
        return True
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, _LASTING):
        return False
    return error.sqlstate is not None or not any(one in str(error) for one in _WRONG)
