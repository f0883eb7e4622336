"""A worker that starts while PostgreSQL is away waits for it; a wrong address ends it. A watch says how to go on."""

import signal
import socket
from typing import Any

import pytest

from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.postgresql import address_of_schema, server_of

SETTINGS = '[journal]\nurl = "{env:JOURNAL_URL}"\n'


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server of this test alone. It ends with the process."""
    return server_of(tmp_path_factory.mktemp("later"))


def test_it_begins_when_the_server_does(user: User, server: Any) -> None:
    user.configure(SETTINGS)
    url = address_of_schema(server.get_uri())
    server.stop()
    with user.start("work", JOURNAL_URL=url) as process:
        for pause in (1, 2):
            line = wait_for(process, rf"! The worker waits for its database\. .* It is tried again in {pause} s\.\n")[0]
            assert "cannot be reached: " in line
        server.ensure_postgres_running()
        wait_for(process, "takes submitted runs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_it_ends_while_it_waits(user: User) -> None:
    user.configure(SETTINGS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        # Longer than this test waits.
        url = f"postgresql://ripieno@{host}:{port}/ripieno?connect_timeout={10 * PATIENCE:.0f}"
        with user.start("work", JOURNAL_URL=url) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            assert "The worker has ended." in err


@pytest.mark.parametrize(("right", "wrong"), [("/postgres?", "/unknown?"), ("postgres:@", "unknown:@")])
def test_a_wrong_address_ends_it(user: User, postgresql_server: str, right: str, wrong: str) -> None:
    user.configure(SETTINGS)
    refused = user.run("work", JOURNAL_URL=postgresql_server.replace(right, wrong))
    assert refused.returncode == 2
    assert "does not exist" in refused.stderr
    assert "It is tried again" not in refused.stderr


@pytest.mark.parametrize("command", [("work",), ("runs", "list"), ("submit", "-m", "score:./no.toml", "Go.")])
def test_without_the_extras_the_one_that_has_both_libraries_is_named(user: User, command: tuple[str, ...]) -> None:
    user.configure(SETTINGS)
    (user.workspace / "no.toml").write_text('[score]\nname = "no"\n[[turns]]\ntext = "No."\n')
    blocked = "import sys; sys.modules.update(dbos=None, psycopg=None); from ripieno.cli import main; sys.exit(main())"
    with user.python("-c", blocked, *command, JOURNAL_URL="postgresql://ada@localhost/x") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "pip install 'ripieno[durable]'" in err) == (2, True), out + err
    assert "[postgres]" not in err


def test_a_watch_says_how_to_go_on(user: User, server: Any) -> None:
    user.configure(SETTINGS)
    (user.workspace / "short.toml").write_text('[score]\nname = "short"\n[[turns]]\ntext = "Hello."\n')
    url = address_of_schema(server.get_uri())
    submit = ("submit", "--watch", "--anywhere", "-m", "score:./short.toml", "--id", "mine", "Hello?")
    with user.start(*submit, JOURNAL_URL=url) as process:
        wait_for(process, "No worker is alive.")
        server.stop()
        _, err = process.communicate(timeout=PATIENCE)
    server.ensure_postgres_running()  # It is stopped at the end of the process.
    assert process.returncode == 2
    assert err.endswith("\nOnly the watching has ended. To watch it again: ripieno runs watch mine\n")
    assert "Error: The " in err
