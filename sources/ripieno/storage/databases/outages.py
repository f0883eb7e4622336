"""The errors of PostgreSQL that may pass, so that what failed can be tried again."""

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


def is_outage(error: object) -> bool:
    """Whether trying again may help after an error of the driver. An unknown reason, in any language, may pass."""
    if isinstance(error, _PASSING):
        return True
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, _LASTING):
        return False
    return error.sqlstate is not None or not any(one in str(error) for one in _WRONG)
