"""One request of a client, how a server of the zoo answers it, and the table of what it does instead."""

import abc
import functools
import json
import time
from collections.abc import Callable
from typing import Any

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
SERVER = {"name": "zoo", "version": "0"}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
NOT_FOUND = -32601


class Exchange(abc.ABC):
    """A request and the way back. Everything blocks."""

    def __init__(self, era: str, request: dict[str, Any]) -> None:
        self.era = era
        self.request = request

    @abc.abstractmethod
    def frame(self, data: bytes) -> bytes:
        """One message as the transport carries it."""

    @abc.abstractmethod
    def write(self, data: bytes) -> None:
        """Bytes as they are."""

    @abc.abstractmethod
    def hang(self) -> None:
        """Does nothing more, until the client goes away."""

    @abc.abstractmethod
    def die(self) -> None:
        """Ends at once, without a word."""

    @abc.abstractmethod
    def wait_for_reply(self, identifier: str) -> dict[str, Any]:
        """What the client answers to a request of the server."""

    @property
    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self.request.get("params") or {}
        return parameters

    @property
    def token(self) -> Any:
        """Its progress token."""
        return self.parameters["_meta"]["progressToken"]

    def line(self, data: bytes) -> None:
        """One message, whatever it is."""
        self.write(self.frame(data))

    def send(self, message: Any) -> None:
        self.line(json.dumps(message).encode())

    def notify(self, method: str, **parameters: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def result(self, result: Any) -> dict[str, Any]:
        """The message that answers with this."""
        if self.era == MODERN and isinstance(result, dict):
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        return {"jsonrpc": "2.0", "id": self.request["id"], "result": result}

    def said(self, text: str, **more: Any) -> dict[str, Any]:
        """The message that answers a call with a text."""
        return self.result({"content": [{"type": "text", "text": text}], **more})

    def answer(self, result: Any) -> None:
        self.send(self.result(result))

    def say(self, text: str, **more: Any) -> None:
        self.send(self.said(text, **more))

    def fail(self, code: Any, message: Any, **more: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": self.request["id"], "error": {"code": code, "message": message, **more}})

    def tools(self, *tools: Any, **more: Any) -> None:
        """A page of tools, beside those that every server has."""
        self.answer({"tools": [*(tool(name) for name in ("echo", "it")), *tools], **more})

    def dribble(self, data: bytes, pause: float) -> None:
        """One message, byte by byte."""
        for byte in self.frame(data):
            self.write(bytes((byte,)))
            time.sleep(pause)


def tool(name: Any, **more: Any) -> dict[str, Any]:
    """A tool that may be called without arguments."""
    return {"name": name, "inputSchema": SCHEMA, **more}


def respond(exchange: Exchange, behaviours: dict[str, Callable[[Exchange], None]]) -> None:
    """Answers a request; where ``behaviours`` has its method, as that says. Only the tool ``it`` has any."""
    method = exchange.request["method"]
    if method in behaviours and (method != "tools/call" or exchange.parameters["name"] == "it"):
        behaviours[method](exchange)
    elif method == "initialize":
        tools = {"listChanged": True}
        exchange.answer({"protocolVersion": LEGACY, "capabilities": {"tools": tools}, "serverInfo": SERVER})
    elif method == "server/discover" and exchange.era == MODERN:
        exchange.answer({"supportedVersions": [MODERN], "capabilities": {"tools": {}}})
    elif method == "tools/list":
        exchange.tools()
    elif method == "tools/call":
        exchange.say(exchange.parameters["name"])
    else:
        exchange.fail(NOT_FOUND, "Method not found")


Behaviour = Callable[[Exchange], None]
BEHAVIOURS: dict[str, dict[str, Behaviour]] = {}


def on(*methods: str, name: str = "") -> Callable[[Behaviour], Behaviour]:
    """Registers a behaviour under its function's name, or this one, for requests of these methods."""

    def register(behaviour: Behaviour) -> Behaviour:
        BEHAVIOURS.setdefault(name or behaviour.__name__, {}).update(dict.fromkeys(methods, behaviour))
        return behaviour

    return register


def behave(*methods: str, **behaviours: Behaviour) -> None:
    """Registers behaviours by their names."""
    for name, behaviour in behaviours.items():
        on(*methods, name=name)(behaviour)


def behave_and_answer(*methods: str, **behaviours: Behaviour) -> None:
    """Registers behaviours that are followed by a good answer."""

    def followed(exchange: Exchange, behaviour: Behaviour) -> None:
        behaviour(exchange)
        exchange.say("it")

    for name, behaviour in behaviours.items():
        on(*methods, name=name)(functools.partial(followed, behaviour=behaviour))


def fixed(method: str, results: dict[str, Any]) -> None:
    """Behaviours that answer a method with one result each."""
    for name, result in results.items():
        on(method, name=name)(lambda exchange, result=result: exchange.answer(result))


def known(name: str) -> dict[str, Behaviour]:
    """The behaviour of that name. Importing registers those that every transport has."""
    from tests.origins.hostile_mcp_servers import calls, handshakes, listings, notifications  # noqa: F401

    return BEHAVIOURS[name]
