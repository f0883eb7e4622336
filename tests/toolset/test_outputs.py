"""The tool that reads on in what was too long to be shown: through the pipeline, with real files."""

import pathlib
import re
from typing import Any

import pytest

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.ensembles import Context, Ensemble, Surroundings
from ripieno.exceptions import ToolFault
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import freeze
from ripieno.storage.outputs import Outputs
from ripieno.toolset.outputs import read_output
from tests.support.scripted_models import ensemble, tool

SCHEMA = {
    "properties": {
        "handle": {"type": "string"},
        "offset": {"type": "integer", "default": 0},
        "limit": {"type": "integer", "default": 16384},
        "pattern": {"type": "string"},
    },
    "required": ["handle"],
}
TEXT = "".join(f"line {number} of it, é\n" for number in range(40_000))


class House:
    """A tool that says a lot, and the one that reads on."""

    def __init__(self, tmp_path: pathlib.Path, text: str = TEXT, **limits: Any) -> None:
        unused: Any = None
        around = Surroundings(
            workspace=tmp_path / "work",
            spawner=unused,
            secrets={},
            alert=lambda _: None,
            outputs=Outputs(tmp_path / "state", tmp_path / "work"),
        )

        def say(context: Context, arguments: dict[str, Any]) -> str:
            return text

        def fail(context: Context, arguments: dict[str, Any]) -> str:
            raise ToolFault(text)

        self.reading = ensemble(tool("read_output", read_output, schema=SCHEMA), name="outputs", surroundings=around)
        self.saying = ensemble(tool("say", say, output=2_000), tool("fail", fail, output=2_000), surroundings=around)
        self.execution = Execution(limits=Limits(**limits))

    async def call(
        self, name: str, conversation: str = "c", ensembles: tuple[Ensemble, ...] | None = None, **arguments: Any
    ) -> ResultCanister:
        call = InvocationCanister(identifier="i", name=name, arguments=freeze(arguments))
        return await self.execution.execute(
            call,
            ensembles=ensembles or (self.saying, self.reading),
            circumstances=Circumstances(conversation=conversation),
        )


def handle_in(result: ResultCanister) -> tuple[str, int]:
    text = result.text if result.error is None else result.error.message
    found = re.search(r'Read on with read_output\(handle="([^"]+)", offset=(\d+)\)', text)
    assert found is not None, text[:3000]
    return found[1], int(found[2])


async def test_lines_that_fit_a_pattern_are_shown_with_their_offsets(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path)
    handle, _ = handle_in(await house.call("say"))
    found = await house.call("read_output", handle=handle, pattern="line 1234[5-7] ")
    lines = found.text.split("\n")
    assert len(lines) == 4
    assert lines[-1] == f"[3 lines from byte 0 of {len(TEXT.encode())} on; these are all]"
    offset, _, line = lines[0].partition(": ")
    assert line == "line 12345 of it, é"
    assert TEXT.encode()[int(offset) :].startswith(b"line 12345 ")
    at_last = await house.call("read_output", handle=handle, pattern="line 1234[5-7] ", offset=int(offset) + 1)
    assert len(at_last.text.split("\n")) == 3
    few = await house.call("read_output", handle=handle, pattern="line", limit=100)
    more = re.search(r"\[(\d+) lines of more; search on with offset=(\d+)\]$", few.text)
    assert more is not None
    assert len(few.text.split("\n")) == int(more[1]) + 1
    assert TEXT.encode()[int(more[2]) :].startswith(f"line {more[1]} ".encode())
    nothing = await house.call("read_output", handle=handle, pattern="zebra")
    assert nothing.text.startswith("[0 lines")
    wrong = await house.call("read_output", handle=handle, pattern="(")
    assert wrong.error is not None
    assert wrong.error.category == "validation"


async def test_a_long_line_is_searched_in_parts_and_shown_where_it_fits(tmp_path: pathlib.Path) -> None:
    text = "é" * 100_000 + "needle" + "x" * 100_000
    house = House(tmp_path, text)
    handle, _ = handle_in(await house.call("say"))
    for pattern in ("needle", "nee.le"):
        found = await house.call("read_output", handle=handle, pattern=pattern)
        line, trailer = found.text.split("\n")
        assert trailer.startswith("[1 line ")
        offset = int(line.partition(":")[0])
        assert text.encode().index(b"needle") - offset < 70_000
    exact = await house.call("read_output", handle=handle, pattern="needle")
    assert "needle" in exact.text


async def test_an_expression_that_is_meant_to_hang_does_not(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path, "a" * 200_000)
    handle, _ = handle_in(await house.call("say"))
    found = await house.call("read_output", handle=handle, pattern="(a+)+$|(a|aa)+b")
    assert found.error is None or found.error.category == "validation"


async def test_a_fault_that_is_too_long_is_kept_as_well(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path)
    handle, offset = handle_in(await house.call("fail"))
    page = await house.call("read_output", handle=handle, offset=offset, limit=1_000)
    assert page.text.partition("\n[bytes ")[0].strip("\n") in TEXT


async def test_nothing_is_kept_where_nobody_could_read_on(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path)
    for said in (
        await house.call("say", ensembles=(house.saying,)),
        await house.call("say", ""),
        await House(tmp_path, spill=0).call("say"),
    ):
        assert re.search(r"\n\[… \d+ bytes left out …\]\n", said.text)
    assert not (tmp_path / "state").exists()
    few = await House(tmp_path, spill=5_000).call("say")
    assert f"Only the first 5000 of its {len(TEXT.encode())} bytes are kept." in few.text


async def test_a_page_that_is_cut_itself_is_not_kept_again(tmp_path: pathlib.Path) -> None:
    house = House(tmp_path, output=500)
    handle, _ = handle_in(await house.call("say"))
    kept = len([*(tmp_path / "state").rglob("*")])
    page = await house.call("read_output", handle=handle)
    assert "bytes left out …]" in page.text
    assert len([*(tmp_path / "state").rglob("*")]) == kept


@pytest.mark.parametrize("prefix", ["", "kept"])
async def test_the_tool_is_named_as_the_model_knows_it(tmp_path: pathlib.Path, prefix: str) -> None:
    house = House(tmp_path)
    house.reading = ensemble(
        tool("read_output", read_output, schema=SCHEMA),
        name="outputs",
        prefix=prefix,
        surroundings=house.reading.surroundings,
    )
    said = await house.call("say")
    name = f"{prefix}__read_output" if prefix else "read_output"
    assert f'Read on with {name}(handle="' in said.text
