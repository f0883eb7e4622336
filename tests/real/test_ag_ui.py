"""The real client of AG-UI in Node, in the versions of today's front ends, plays whole rounds with a real server."""

import asyncio
import contextlib
import json
import pathlib
import shutil
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

import pytest
from starlette.applications import Starlette

from ripieno.canisters import Canister, Controls, UserCanister
from ripieno.canisters.events import Event
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ProviderUnreachable
from ripieno.models import Model
from ripieno.servers.chat.ag_ui.application import create_application
from ripieno.servers.chat.chat import Chat
from ripieno.servers.http.server import serve
from tests.documentation.code_blocks import DOCUMENTATION
from tests.real.installing import ag_ui_client
from tests.servers.chat.test_ag_ui import Written, look, streaming
from tests.servers.chat.test_application import signed_in
from tests.support.chats import chatting
from tests.support.scripted_models import Blocking, Scripted, invoke, invokes, says, scripted, tool

SCRIPT = pathlib.Path(__file__).parent / "node" / "ag_ui.mjs"


class ByText(Scripted):
    """A model that does what the newest text asks for; after a result it says that it is done."""

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[Iterable[Event], None]:
        number = len(canisters)
        wanted = canisters[-1].content[0].text if isinstance(canisters[-1], UserCanister) else ""
        turns: dict[str, Model] = {
            "calls": scripted(streaming("look", f"look-{number}", f"again-{number}", at="sky")),
            "write": scripted(streaming("write", f"write-{number}", text="asked")),
            "locate": scripted(invokes(invoke("locate", f"locate-{number}"))),
            "block": scripted(invokes(invoke("block", f"block-{number}"))),
            "fail": scripted([*says("Not")[:2], ProviderUnreachable("scripted", "It is away.")]),
        }
        turn = turns.get(wanted) or scripted(says("Done."))
        async with contextlib.aclosing(turn.batches(canisters, ensembles=ensembles)) as batches:
            async for batch in batches:
                yield batch


@pytest.mark.parametrize("version", ["0.0.59", "1.0.0"])
async def test_whole_rounds_with_the_real_client(tmp_path: pathlib.Path, version: str) -> None:
    node = shutil.which("node")
    assert node is not None
    modules = ag_ui_client(version)
    written, model = Written(), scripted()
    model = ByText(provider=model.provider, name=model.name, turns=())
    tools = (written.definition, tool("look", look), tool("locate", hosted="caller"), tool("block", Blocking()))
    async with (
        chatting(tmp_path, model, *tools) as chat,
        serve(create_application(chat, authenticate=signed_in)) as url,
    ):
        program = await asyncio.create_subprocess_exec(
            node, str(SCRIPT), str(modules), url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await asyncio.wait_for(program.communicate(), 60)
    assert program.returncode == 0, errors.decode()
    # The client warns about what it does not know or cannot place.
    assert not errors, errors.decode()
    seen = json.loads(output)
    assert _shown(seen["text"]) == ["user: text", "assistant: Done."] * 2
    assert _shown(seen["calls"]) == [
        "user: calls",
        "assistant: I look.",
        'call: look {"at": "sky"}',
        'call: look {"at": "sky"}',
        "tool: seen",
        "tool: seen",
        "assistant: Done.",
    ]
    kinds = seen["calls"]["rounds"][0]["kinds"]
    assert {"REASONING_MESSAGE_CONTENT", "ACTIVITY_SNAPSHOT", "TOOL_CALL_ARGS", "STEP_FINISHED"} <= set(kinds)
    for name, result in (("approve", "written"), ("deny", "Not today."), ("edit", "written"), ("cancel", "too early")):
        first, ignored, *rest = seen[name]["rounds"]
        assert len(first["interrupts"]) == 1
        # The client itself refuses to leave an interrupt unanswered.
        assert "pending interrupt" in ignored["thrown"]
        if name == "edit":
            shown, *rest = rest
            assert [one["metadata"]["arguments"] for one in shown["interrupts"]] == [{"text": "edited"}]
        assert not any(one.get("thrown") or one["error"] or one["interrupts"] for one in rest)
        assert any(one.startswith("tool: ") and result in one for one in _shown(seen[name])), seen[name]
    assert written.texts == ["asked", "edited"]
    first, second = seen["client"]["rounds"]
    assert first["pending"] == (["locate-1"] if version == "1.0.0" else None)
    assert _shown(seen["client"])[-2:] == ["tool: Cremona", "assistant: Done."]
    first, second = seen["failure"]["rounds"]
    assert first["error"]
    assert not second["error"]
    assert _shown(seen["failure"])[-1] == "assistant: Done."
    (stopped,) = seen["stop"]["rounds"]
    assert stopped["kinds"][-1] == "RUN_FINISHED"
    assert not stopped["error"]
    assert not stopped.get("thrown")


@pytest.mark.parametrize("version", ["0.0.59", "1.0.0"])
async def test_the_plain_client_of_the_documentation(tmp_path: pathlib.Path, version: str) -> None:
    node = shutil.which("node")
    assert node is not None
    (tmp_path / "node_modules").symlink_to(ag_ui_client(version))
    program = shutil.copy(DOCUMENTATION / "examples" / "front-ends" / "plain-client.mjs", tmp_path)
    written = Written()
    model = scripted(
        invokes(invoke("write", "write-1", text="first")),
        invokes(invoke("locate", "locate-1")),
        says("It was written in Cremona."),
        says("I still know."),
    )
    async with chatting(tmp_path, model, written.definition) as chat, serve(_open_to_all(chat)) as url:
        outputs: list[str] = []
        for text in ("Write it here.", "And now?"):
            process = await asyncio.create_subprocess_exec(
                *(node, str(program), url, text, "thread"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 0, errors.decode()
            outputs.append(output.decode())
    assert "May mine.write run?" in outputs[0]
    assert outputs[0].endswith("It was written in Cremona.\n")
    assert outputs[1] == "I still know.\n"
    assert written.texts == ["edited"]
    assert "Cremona" in str(model.asked[2][0])


def _open_to_all(chat: Chat) -> Starlette:
    return create_application(chat, authenticate=lambda _: "ada")


def _shown(one: Mapping[str, Any]) -> list[str]:
    """The messages that the client has, without reasoning and progress."""
    found: list[str] = []
    for message in one["messages"]:
        if message["role"] not in ("reasoning", "activity"):
            found += [f"{message['role']}: {message['content']}"] if message.get("content") else []
            calls = (call["function"] for call in message.get("toolCalls", ()))
            found += [f"call: {call['name']} {call['arguments']}" for call in calls]
    return found
