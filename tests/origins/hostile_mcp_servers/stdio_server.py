"""A server over its standard streams: ``python -m tests.origins.hostile_mcp_servers.stdio_server BEHAVIOUR ERA``."""

import json
import os
import select
import signal
import sys
from typing import Any

from tests.origins.hostile_mcp_servers.calls import CALL, MIB
from tests.origins.hostile_mcp_servers.exchanges import Exchange, behave, behave_and_answer, known, on, respond

#: What happens before anything is read.
START = ""


class Lines(Exchange):
    """A request that came as a line."""

    def frame(self, data: bytes) -> bytes:
        return data + b"\n"

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    def hang(self) -> None:
        # To the end of its input, as a good server does.
        while os.read(0, 65536):
            pass
        os._exit(0)

    def die(self) -> None:
        os._exit(3)

    def wait_for_reply(self, identifier: str) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(sys.stdin.readline())
            if str(message.get("id")) == identifier:
                return message


def _sleep() -> None:
    while True:
        signal.pause()


@on(START)
def dies_before_reading(_: Exchange) -> None:
    os.write(2, b"no key\n")
    os._exit(3)


@on(START)
def an_endless_line(exchange: Exchange) -> None:
    while True:
        exchange.write(b"x" * 65536)


@on(CALL)
def an_endless_blank(exchange: Exchange) -> None:
    while True:
        exchange.write(b"\n" * 65536)


@on(CALL)
def endless_notifications(exchange: Exchange) -> None:
    line = exchange.frame(b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}')
    while True:
        exchange.write(line * 1000)


@on(CALL)
def much_standard_error(exchange: Exchange) -> None:
    for _ in range(128 * MIB // 65536):
        os.write(2, b"\x1b[31mred\x1b]0;title\x07\n" * (65536 // 20))
    exchange.say("it")


@on(CALL)
def standard_error_and_death(exchange: Exchange) -> None:
    os.write(2, b"\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b31mred\xe2\x80\xae \xf3\xa0\x81\x81tagged\r\nhalf \xff\n")
    exchange.die()


@on(START)
def endless_standard_error(_: Exchange) -> None:
    if os.fork() == 0:
        while True:
            os.write(2, b"x" * 65536)


@on(START)
def ignores_its_end(_: Exchange) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@on(CALL, name="ignores_its_end_in_call")
def _ignoring(exchange: Exchange) -> None:
    ignores_its_end(exchange)
    _sleep()


def _child(*, daemon: bool) -> None:
    """A process that holds what its parent has open, until nobody watches over it any more."""
    if os.fork():
        return
    if daemon:
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    watched = select.poll()
    watched.register(int(os.environ["HELD"]), 0)
    watched.poll()
    os._exit(0)


@on(CALL)
def leaves_a_child_and_dies(exchange: Exchange) -> None:
    _child(daemon=False)
    exchange.die()


@on(CALL)
def leaves_a_daemon_and_dies(exchange: Exchange) -> None:
    _child(daemon=True)
    exchange.die()


@on(CALL)
def goes_on_in_a_child(_: Exchange) -> None:
    if os.fork():
        os._exit(0)
    _sleep()


@on(CALL)
def closes_its_output(_: Exchange) -> None:
    os.close(1)
    _sleep()


@on(CALL)
def closes_its_input(exchange: Exchange) -> None:
    os.close(0)
    exchange.say("it")
    _sleep()


@on(CALL)
def closes_all(_: Exchange) -> None:
    os.closerange(0, 3)
    _sleep()


@on(CALL)
def never_reads_again(exchange: Exchange) -> None:
    exchange.say("it")
    _sleep()


@on(CALL)
def half_a_line_and_its_end(exchange: Exchange) -> None:
    exchange.write(b'{"jsonrpc": "2.0", "id": ')
    os.close(1)
    _sleep()


@on(CALL)
def no_newline_at_the_end(exchange: Exchange) -> None:
    exchange.write(json.dumps(exchange.said("it")).encode())
    exchange.die()


behave(CALL, an_endless_line_in_call=an_endless_line)
behave_and_answer(
    CALL,
    leaves_a_child=lambda _: _child(daemon=False),
    leaves_a_daemon=lambda _: _child(daemon=True),
    stops_itself=lambda _: os.kill(os.getpid(), signal.SIGSTOP),
)


def main(name: str, era: str) -> None:
    if "ALIVE" in os.environ:
        held = os.open(os.environ["ALIVE"], os.O_WRONLY)
        os.set_inheritable(held, True)
        os.environ["HELD"] = str(held)
    behaviours = known(name)
    if START in behaviours:
        behaviours[START](Lines(era, {}))
    for line in sys.stdin:
        request = json.loads(line)
        if "method" in request and "id" in request:
            respond(Lines(era, request), behaviours)


if __name__ == "__main__":
    # The behaviours of this very module are registered under its name, not under "__main__".
    from tests.origins.hostile_mcp_servers.stdio_server import main as run

    run(*sys.argv[1:])
