"""``ripieno providers`` and ``ripieno probe``: what the data says, and what a real endpoint on loopback shows."""

import json
import tomllib
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from ripieno.cli.common import exit_codes
from tests.support.command_line import User
from tests.support.obedient_server import Obedient, obeying
from tests.support.users import Call

HOUSE = """
[providers.house]
protocol = "openai-chat"
base_url = "{url}"
api_key = "{{env:HOUSE_KEY}}"

[providers.house.capabilities]
json_mode = true

[[providers.house.models]]
match = "small-*"
function_calling = false
tool_choice = false
"""


def test_the_matrix_says_what_the_data_says(call: Call, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.configure(HOUSE.format(url="http://127.0.0.1:9/v1"))
    monkeypatch.setenv("HOUSE_KEY", "secret")
    done = call("providers")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0][:8] == ["PROVIDER", "PROTOCOL", "CALLS", "PARALLEL", "STREAMING", "JSON", "CHOICE", "STRICT"]
    rows = {line[0]: line for line in lines[1:]}
    # Seed 000, section 4.1; the first has a format for answers since.
    assert rows["anthropic"][2:7] == ["native", "yes", "yes", "yes", "yes"]
    assert rows["openai"][2:7] == ["native", "yes", "yes", "yes", "yes"]
    assert rows["ollama"][3:7] == ["no", "yes", "yes", "no"]
    assert rows["vllm"][2:7] == ["native", "yes", "yes", "yes", "yes"]
    assert rows["house"][-1] == "HOUSE_KEY*"
    assert rows["openai"][-1] == "OPENAI_API_KEY"
    assert "secret" not in done.out


def test_one_provider_has_a_line_for_each_model_that_differs(call: Call, user: User) -> None:
    user.configure(HOUSE.format(url="http://127.0.0.1:9/v1"))
    lines = [line.split() for line in call("providers", "house").out.splitlines()]
    assert [line[0] for line in lines[1:]] == ["house", "small-*"]
    assert lines[2][2:7] == ["prompted", "yes", "yes", "yes", "no"]
    (small,) = json.loads(call("providers", "house", "--model", "small-1", "--format", "json").out)
    assert small["capabilities"]["function_calling"] is False
    assert small["capabilities"]["json_mode"] is True
    assert small["variables"] == {"HOUSE_KEY": False}


def test_alternatives_are_shown_with_those_that_are_set(
    call: Call, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = 'api_key = ["{env:HOUSE_KEY}", "{env:HOUSE_NAME}:{env:HOUSE_WORD}", "none"]\nregion = "{env:HOUSE_REGION}"\n'
    table = HOUSE.format(url="http://127.0.0.1:9/v1").replace('api_key = "{env:HOUSE_KEY}"\n', keys)
    user.configure('[environment]\nallow = ["HOUSE_*"]\n' + table)
    monkeypatch.setenv("HOUSE_WORD", "secret")
    monkeypatch.setenv("HOUSE_REGION", "here")
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    row = next(line for line in call("providers").out.splitlines() if line.startswith("house"))
    assert row.endswith("HOUSE_KEY or HOUSE_NAME and HOUSE_WORD* or none, HOUSE_REGION*")
    (shown,) = json.loads(call("providers", "house", "--format", "json").out)
    assert shown["variables"] == {"HOUSE_KEY": False, "HOUSE_NAME": False, "HOUSE_WORD": True, "HOUSE_REGION": True}
    # What descriptors may not take counts for nothing.
    assert call("providers", "gemini").out.rstrip().endswith("GEMINI_API_KEY or GOOGLE_API_KEY")
    facts = {one["name"]: one for one in json.loads(call("doctor", "--format", "json").out)["providers"]}
    assert (facts["house"]["ready"], facts["gemini"]["ready"]) == (True, False)
    user.configure(table)
    facts = {one["name"]: one for one in json.loads(call("doctor", "--format", "json").out)["providers"]}
    assert facts["gemini"]["ready"] is True


def test_a_provider_that_nobody_knows(call: Call) -> None:
    done = call("providers", "opnai")
    assert done.code == exit_codes.INPUT
    assert "openai" in done.err


@pytest.fixture
def small() -> Iterator[tuple[Obedient, str]]:
    """A server whose model makes one call at a time."""
    model = Obedient("parallel_calls")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(obeying(model)) as url:
        yield model, url


def test_a_probe_prints_a_table_that_a_configuration_takes(user: User, small: tuple[Obedient, str], call: Call) -> None:
    model, url = small
    user.configure(HOUSE.format(url=url))
    done = user.call("probe", "house/small-[1]", HOUSE_KEY="secret")
    assert (done.returncode, len(model.requests)) == (0, 10)
    assert "no   It makes two calls at once: it called add(first=1, second=2)" in done.stderr
    assert "function_calling: false in the data of house, true in this probe." in done.stderr
    assert "yes  It streams\nyes  It counts tokens in a stream\n" in done.stderr
    assert "secret" not in done.stdout + done.stderr
    (row,) = tomllib.loads(done.stdout)["providers"]["house"]["models"]
    assert row["function_calling"] is True
    assert row["parallel_calls"] is False
    # It may be pasted as it is, and matches this model alone.
    user.configure(HOUSE.format(url=url).partition("[[")[0] + done.stdout)
    (found,) = json.loads(call("providers", "house", "--model", "small-[1]", "--format", "json").out)
    assert found["capabilities"]["parallel_calls"] is False
    (other,) = json.loads(call("providers", "house", "--model", "small-1", "--format", "json").out)
    assert other["capabilities"]["parallel_calls"] is True


def test_a_probe_as_json(user: User, small: tuple[Obedient, str]) -> None:
    user.configure(HOUSE.format(url=small[1]))
    probed = json.loads(user.call("probe", "house/m", "--format", "json", HOUSE_KEY="k").stdout)
    assert len(probed["findings"]) == 10
    assert probed["capabilities"]["parallel_calls"] is False
