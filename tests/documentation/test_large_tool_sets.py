"""The tutorial about many tools and long results is correct."""

import pathlib
import re
import tomllib
from typing import Any

from ripieno.approvals import Approve
from ripieno.assembly import assemble
from ripieno.assembly.configuration import Places, load_configuration
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import parse
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.documentation.code_blocks import texts
from tests.support.scripted_models import Person

KINDS = ("toml", "toml", "text", "toml", "toml", "")


async def test_searchable_tools_are_found_and_called_as_shown(tmp_path: pathlib.Path) -> None:
    ledger, over, shown, searched, reading, _ = texts("tutorials/large-tool-sets", *KINDS)
    (tmp_path / "ledger.toml").write_text(ledger)
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    tables: dict[str, Any] = {
        **tomllib.loads(over),
        **tomllib.loads(searched),
        "ensembles": {"paths": [str(tmp_path / "ledger.toml")], "enabled": ["ledger", "outputs"]},
        "limits": tomllib.loads(reading)["limits"],
    }
    lines = re.findall(r"^(\w+) +(\{.*\})$", shown, re.MULTILINE)
    said: list[tuple[str, Any]] = [(name, parse(arguments)) for name, arguments in lines]
    calls = [call(name, f"r{at}", **arguments) for at, (name, arguments) in enumerate(said)]
    model = model_of([*(turn("", calls=[one]) for one in calls), turn("{r1}")])
    async with assemble(tables, workspace=tmp_path, places=places, confirmer=Person(Approve())) as assembly:
        assert Offer.of(assembly.ensembles).names == ("balance", "read_output", "search_tools", "call_tool")
        conversation = await assembly.conduct("Book it", model=model)
    assert [one.name for one in conversation.canisters if isinstance(one, InvocationCanister)] == [
        "search_tools",
        "call_tool",
    ]
    assert conversation.text.strip() == shown.strip().splitlines()[-1]
    anthropic = assembly.loaded.providers["anthropic"]
    assert anthropic.capabilities_for("m")["tool_search"] is True


async def test_a_long_result_is_read_on_as_shown(tmp_path: pathlib.Path) -> None:
    *_, reading, line = texts("tutorials/large-tool-sets", *KINDS)
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    tables = tomllib.loads(reading)
    loaded = load_configuration(tables, places=places)
    assert loaded.failures == ()
    assert loaded.configuration.limits == Limits()
    assert "outputs" in [one.name for one in loaded.ensembles]
    work = tmp_path / "work"
    work.mkdir()
    (work / "long.txt").write_text("0123456789\n" * 20_000)
    tables["limits"]["output"] = "4 KiB"
    async with assemble(tables, workspace=work, places=places) as assembly:
        model = model_of([turn("", calls=[call("read_file", path="long.txt")]), turn("Done.")])
        conversation = await assembly.conduct("Read it", model=model)
    result = next(one for one in conversation.canisters if isinstance(one, ResultCanister))
    pattern = (
        re.escape(line.strip())
        .replace("2885125", r"\d+")
        .replace("2730", r"\d+")
        .replace('handle="…"', 'handle="[^"]+"')
    )
    assert re.search(pattern, result.text), result.text[40_000:50_000]
