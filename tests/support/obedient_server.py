"""A chat completions server on loopback whose model obeys each request, within its capabilities, for probes."""

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ripieno.servers.http.server import serve


class Obedient:
    """``lacks``: missing capabilities; ``refuses``: keys answered with 400; ``sees``: the answer to a picture."""

    def __init__(self, *lacks: str, refuses: tuple[str, ...] = (), status: int = 200, sees: str = "Red.") -> None:
        self.lacks = frozenset(lacks)
        self.refuses = refuses
        self.status = status
        self.sees = sees
        self.requests: list[dict[str, Any]] = []

    async def answer(self, request: Request) -> Response:
        asked = json.loads(await request.body())
        self.requests.append(asked)
        if self.status != 200:
            return JSONResponse({"error": {"message": "No."}}, self.status)
        for key in self.refuses:
            if key in asked:
                return JSONResponse({"error": {"message": f"Unsupported parameter: {key}"}}, 400)
        message = self._message(asked)
        if not asked.get("stream"):
            return JSONResponse(_whole({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
        return StreamingResponse(self._stream(message), media_type="text/event-stream")

    def _message(self, asked: dict[str, Any]) -> dict[str, Any]:
        calls = self._calls(asked)
        if not calls:
            return {"role": "assistant", "content": self._text(asked)}
        listed = [
            {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for number, (name, arguments) in enumerate(calls)
        ]
        return {"role": "assistant", "content": None, "tool_calls": listed}

    def _calls(self, asked: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        said = str(asked["messages"][-1].get("content"))
        if "tools" not in asked or "function_calling" in self.lacks:
            return []
        if asked.get("stream") and "stream_calls" in self.lacks:
            return []
        choice = asked.get("tool_choice", "auto")
        if "tool_choice" not in self.lacks:
            if isinstance(choice, dict):
                return [(choice["function"]["name"], {"word": "hello"})]
            if choice == "required" and "add" not in said:
                return [("say", {"word": "hello"})]
        pairs = [(int(one), int(other)) for one, other in re.findall(r"(\d+) and (\d+)", said)]
        sums = [("add", {"first": one, "second": other}) for one, other in pairs]
        return sums[:1] if "parallel_calls" in self.lacks else sums

    def _text(self, asked: dict[str, Any]) -> str:
        picture = "image_url" in json.dumps(asked["messages"])
        if picture:
            return "I cannot see it." if "images_in_results" in self.lacks else self.sees
        return "one two three four"

    def _stream(self, message: dict[str, Any]) -> Iterator[str]:
        words = re.findall(r"\S+\s*", message.pop("content") or "")
        deltas: list[dict[str, Any]] = [{"content": word} for word in words]
        if "streaming" in self.lacks:
            deltas = [{"content": "".join(words)}]
        if calls := message.get("tool_calls"):
            deltas = [{"tool_calls": [{"index": number, **call}]} for number, call in enumerate(calls)]
        for delta in deltas:
            yield _event({"choices": [{"index": 0, "delta": delta}]})
        yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if "stream_usage" not in self.lacks:
            yield _event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
        yield "data: [DONE]\n\n"


def _whole(mapping: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a", "object": "chat.completion", "created": 1, "model": "m", **mapping}


def _event(mapping: dict[str, Any]) -> str:
    return f"data: {json.dumps({**_whole(mapping), 'object': 'chat.completion.chunk'})}\n\n"


@contextlib.asynccontextmanager
async def obeying(model: Obedient) -> AsyncGenerator[str, None]:
    """The base URL of the server, while it is entered."""
    application = Starlette(routes=[Route("/v1/chat/completions", model.answer, methods=["POST"])])
    async with serve(application) as url:
        yield f"{url}/v1"
