"""Models, agents and tools over the page's API: what is offered, and why something is missing."""

import pathlib

import httpx2
from frozendict import frozendict
from msgspec.structs import force_setattr

from ripieno.assembly import assemble
from ripieno.servers.chat.chat import Chat
from ripieno.servers.http.server import serve
from ripieno.servers.web.application import create_application
from ripieno.servers.web.sessions import Sessions
from ripieno.servers.web.tools import describe_tools
from ripieno.storage.journal import Journal
from tests.servers.web.conftest import Connect
from tests.support.command_line import User
from tests.support.scripted_models import says, scripted, tool


async def test_tools_that_are_offered_come_first_and_others_with_the_reason(connect: Connect) -> None:
    async with connect(scripted(says("Yes.")), tool("look", effect="write")) as (_, client):
        found = (await client.get("api/tools")).json()
        first, *others = found["ensembles"]
        assert (first["name"], first["state"], first["reason"]) == ("mine", "enabled", "")
        assert [(one["name"], one["effect"]) for one in first["tools"]] == [("look", "write")]
        git = next(one for one in others if one["name"] == "git")
        assert git["state"] == "available"
        assert git["reason"].startswith('Available, not enabled. To add it: include = ["git"] under [ensembles]')
        assert "status" in " ".join(one["name"] for one in git["tools"])


async def test_an_ensemble_that_cannot_start_has_its_reason(user: User) -> None:
    user.ensemble(
        "broken",
        '[ensemble]\nname = "broken"\nrequired = false\n[connection]\norigin = "mcp"\ncommand = ["nothing-here"]\n',
    )
    user.configure('[ensembles]\ninclude = ["broken", "io"]\n')
    async with assemble(workspace=user.workspace, places=user.places, secrets={}) as assembly:
        found = describe_tools(assembly)
    broken = next(one for one in found["ensembles"] if one["name"] == "broken")
    assert broken["state"] == "missing"
    assert "nothing-here" in broken["reason"]
    io = next(one for one in found["ensembles"] if one["name"] == "io")
    assert io["state"] == "enabled"
    assert next(one for one in io["tools"] if one["name"] == "read_file")["arguments"]["type"] == "object"


async def test_a_tool_whose_program_is_missing_has_its_reason(user: User) -> None:
    one = (
        '[[invokers]]\nname = "{}"\ndescription = "One."\narguments = {{ type = "object" }}\n'
        '[invokers.invocable]\norigin = "command"\nargv = ["{}"]\n'
    )
    user.ensemble("broken", '[ensemble]\nname = "broken"\n' + one.format("lost", "nothing-here"))
    both = one.format("gone", "nothing-here") + one.format("good", "true")
    user.ensemble("half", '[ensemble]\nname = "half"\n' + both)
    user.configure('[ensembles]\ninclude = ["broken", "half"]\n')
    async with assemble(workspace=user.workspace, places=user.places, secrets={}) as assembly:
        found = {one["name"]: one for one in describe_tools(assembly)["ensembles"]}
    reason = "The program 'nothing-here' is not in PATH. Install it, add its folder to PATH, or write its full path."
    assert (found["broken"]["state"], found["broken"]["reason"]) == ("missing", reason)
    assert (found["half"]["state"], found["half"]["reason"]) == ("enabled", reason)
    assert {one["name"]: one["reason"] for one in found["half"]["tools"]} == {"gone": reason, "good": ""}


async def test_descriptions_hide_nothing(connect: Connect) -> None:
    hostile = tool("look")
    force_setattr(hostile, "description", "Safe\u202eelif\x1b[2J")
    async with connect(scripted(says("Yes.")), hostile) as (_, client):
        (shown,) = (await client.get("api/tools")).json()["ensembles"][0]["tools"]
        assert shown["description"] == "Safe\\u202eelif\\x1b[2J"


async def test_models_and_agents(tmp_path: pathlib.Path) -> None:
    configuration = {
        "model": {"default": "mine/large", "fallback": ["mine/small"]},
        "agents": {"writer": {"model": "mine/long"}},
        "providers": {"mine": {"protocol": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}},
    }
    sessions = Sessions()
    token = sessions.exchange(sessions.make_code())
    with Journal(tmp_path / "journal.sqlite3") as journal:
        async with (
            assemble(configuration, workspace=tmp_path, recorder=journal) as assembly,
            Chat(assembly) as chat,
            serve(create_application(assembly, chat, sessions)) as url,
            httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {token}"}) as client,
        ):
            found = (await client.get("/api/models")).json()
    defaults = {one["name"]: one["default"] for one in found["models"]}
    assert defaults == frozendict({"mine/large": True, "mine/small": False, "mine/long": False})
    assert (found["agents"], found["workspace"]) == (["writer"], str(tmp_path))
