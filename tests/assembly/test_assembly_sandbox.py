"""The sandbox of an assembly: its configuration, tools, reports and end."""

import os
import pathlib
from typing import Any

import pytest

from ripieno.assembly import assemble
from ripieno.canisters import InvocationCanister
from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import AssemblyFailure, ExecutionFault
from ripieno.execution import Execution
from tests.support.command_line import User
from tests.support.sandbox_tiers import SHELTERS, shelter
from tests.support.scripted_models import ensemble, invoke, tool

CONFIGURATION = {"ensembles": {"enabled": ["greeting"]}, "confirmation": {"approve": ["*"]}}


def configured(user: User, **sandbox: Any) -> dict[str, Any]:
    return {**CONFIGURATION, "sandbox": sandbox}


async def test_folders_last_as_long_as_the_assembly(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    async with assemble(configured(user, level="auto"), workspace=user.workspace, places=user.places) as assembly:
        sandbox = assembly.surroundings.sandbox
        assert sandbox is not None
        assert (sandbox.level, sandbox.workspace) == ("auto", str(user.workspace.resolve()))
        folder = pathlib.Path(sandbox.home).parent
        assert sorted(os.listdir(folder)) == ["home", "temporary"]
    assert folder.name not in os.listdir(folder.parent)


async def test_what_was_read_for_it_is_not_the_programs_to_write(user: User, greeting: str) -> None:
    """Also if the configuration is beneath the workspace, as in a home folder."""
    user.ensemble("greeting", greeting)
    above = user.places.configuration.parent
    user.configure("")
    async with assemble(configured(user, level="auto"), workspace=above, places=user.places) as assembly:
        assert assembly.surroundings.sandbox is not None
        protected = assembly.surroundings.sandbox.confinement(writable=[above]).protected
    own = {str(user.places.configuration / "config.toml"), f"{user.places.configuration}/", f"{user.places.state}/"}
    assert own <= set(protected)


async def test_a_provider_that_nobody_brings_ends_the_start(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    with pytest.raises(AssemblyFailure) as caught:
        async with assemble(configured(user, provider="cubes"), workspace=user.workspace, places=user.places):
            pass
    (failure,) = caught.value.exceptions
    assert "cubes" in str(failure)
    assert "sandbox" in str(failure)


@pytest.mark.parametrize("name", [name for name in SHELTERS if name in ("tier 1", "tier 2")])
async def test_every_result_of_a_program_names_the_tier(name: str, user: User, greeting: str) -> None:
    shelter(name, user.workspace)
    argv = '["ls", "--", "{name}"]\nconfined = true'
    user.ensemble("greeting", greeting.replace('["echo", "hello", "--", "{name}"]', argv))
    wishes = {"tier": SHELTERS[name][0]}
    async with assemble(configured(user, **wishes), workspace=user.workspace, places=user.places) as assembly:
        for argument, failed in ((".", False), ("missing", True)):
            invocation = InvocationCanister(identifier="1", name="say_hello", arguments={"name": argument})
            result = await assembly.execution.execute(invocation, ensembles=assembly.ensembles)
            assert (result.error is not None) is failed
            assert result.report.sandbox is not None
            assert result.report.sandbox.startswith(f"{name} (")
            assert result.response_mapping()["sandbox"] == result.report.sandbox


async def test_a_tool_says_where_its_program_ran(user: User) -> None:
    async def fine(context: Context, arguments: dict[str, Any]) -> Outcome:
        return Outcome(content="x", sandbox="tier 9")

    async def failing(context: Context, arguments: dict[str, Any]) -> Outcome:
        context.sandbox = "tier 8"
        raise ExecutionFault("It failed.")

    async def none(context: Context, arguments: dict[str, Any]) -> str:
        return "x"

    mine = ensemble(*(tool(one.__name__, one) for one in (fine, failing, none)))
    seen = {
        name: (await Execution().execute(invoke(name), ensembles=[mine])).report.sandbox
        for name in ("fine", "failing", "none")
    }
    assert seen == {"fine": "tier 9", "failing": "tier 8", "none": None}
