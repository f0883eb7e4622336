"""The addresses of PostgreSQL servers. Messages repeat no part of one that cannot be read: it may be a password."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ripieno.descriptors.journal import UNREADABLE, address_fault, refuse_address


def read_address(address: str) -> dict[str, Any]:
    """The parameters of an address, as libpq names them. Errors: ``InputError``."""
    if fault := address_fault(address):
        raise refuse_address(fault)
    try:
        return conninfo_to_dict(address)
    except psycopg.Error:
        raise refuse_address(UNREADABLE) from None
