"""Addresses of databases: whatever a password has, no message and no name has any of it."""

import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ripieno.exceptions import InputError
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.addresses import address_of

SECRET = "topsecret"


@given(st.text(alphabet="@:/?#[]%&=+,;{} \"'aé7\t"), st.text(alphabet="@:/?#[]%&=+,;{} \"'aé7\t"))
@example("1/", "")
@example("5432/", "")
@example("1@", "")
@example("", "%zz")
@example("?", "=")
def test_no_part_of_a_password_is_shown(before: str, after: str) -> None:
    address = f"postgresql://u:{before}{SECRET}{after}@h/x"
    shown: list[str] = []
    for reads in (lambda one: database_at(one).name, address_of):
        try:
            read = reads(address)
        except InputError as error:
            shown += [str(error), str(error.__cause__)]
        else:
            shown += [read] if isinstance(read, str) else []
    assert SECRET not in "".join(shown)


def test_what_libpq_says_is_in_sentences() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Nothing listens there.
        database = database_at(f"postgresql://u@127.0.0.1:{unused.getsockname()[1]}/x")
        with pytest.raises(InputError) as refused:
            database.inspect()
    assert "Connection refused. Is the server running" in str(refused.value)
    assert "connections? Earlier records are kept." in str(refused.value)


@pytest.mark.parametrize("address", [f"mysql://u:{SECRET}@h/y", f"postgresql//u:{SECRET}@h/x", "journal.sqlite3", ""])
def test_what_is_no_address_of_postgresql_is_refused_everywhere(address: str) -> None:
    for reads in (database_at, address_of):
        with pytest.raises(InputError, match=r"must begin with postgresql://, such as") as refused:
            reads(address)
        assert SECRET not in str(refused.value)
