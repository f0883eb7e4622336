"""``[journal]``: the address of its database is checked, and never shown: it may have a password."""

import pytest

from ripieno.descriptors.configuration import read_parts
from ripieno.descriptors.reader.problems import Source, excerpt


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ada@db.example/ripieno", ""),
        ("postgres://ada:p%40ss:word@[::1]:5432,db.example:5433/ripieno?sslmode=require&host=@abstract", ""),
        ("postgresql://ripieno@/ripieno?host=/run/postgresql", ""),
        ("postgresql:///ripieno", ""),
        ("postgresql://%2Frun%2Fpostgresql/ripieno", ""),
        ("{env:JOURNAL_URL}", ""),
        ("postgresql://ada:{env:PASSWORD}@db.example/ripieno", ""),
        ("mysql://u:topsecret@h/y", "url must begin with postgresql://, such as postgresql://user@host/database"),
        ("postgresql//u:topsecret@h/x", "url must begin with postgresql://"),
        ("mysql://u:topsecret@{env:HOST}", "url must begin with postgresql://"),
        ("host=db.example password=topsecret", "url must begin with postgresql://"),
        ("./journal.sqlite3", "url must begin with postgresql://"),
        ("{{postgresql://", "url must begin with postgresql://"),
        ("postgresql://u:top/secret@h/x", "url cannot be read as postgresql://user:password@host:port/database"),
        ("postgresql://u:5432/topsecret@h/x", "url cannot be read as"),
        ("postgresql://u:1@topsecret@h/x", "url cannot be read as"),
        ("postgresql://u:topsecret%@h/x", "url cannot be read as"),
        ("postgresql://u:topsecret @h/x", "url cannot be read as"),
        ("postgresql://u:topsecret{@h/x", "url has braces that are not a variable"),
    ],
)
def test_an_address_is_one_of_postgresql(url: str, message: str) -> None:
    text = f'[journal]\nurl = "{url}"\n'
    parts, problems = read_parts({"journal": {"url": url}}, Source(file="a.toml", text=text))
    assert [one.message for one in problems] == ([problems[0].message] if message else [])
    assert parts.get("journal", {}).get("url") == (None if message else url)
    for one in problems:
        assert one.message.startswith(message)
        assert (one.line, one.source) == (2, "url = …")
        assert "secret" not in str(one)


@pytest.mark.parametrize(
    "line",
    ['ulr = "postgresql://u:topsecret@h/x"', "url = postgresql//u:top/sec@ret@h/x", 'url = "mysql://:topsecret@h'],
)
def test_no_line_shows_a_password(line: str) -> None:
    for path in (("journal", "ulr"), ()):
        shown = excerpt(line, path)
        assert "…@h" in shown
        assert "sec" not in shown
