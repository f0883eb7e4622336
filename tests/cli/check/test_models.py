"""What ``check`` and ``doctor`` say of models and providers: what never holds, what is no help, and no secrets."""

import json
import tomllib

import pytest
from anyio.from_thread import start_blocking_portal

from ripieno.cli.common import exit_codes
from ripieno.cli.common.models import show_address
from tests.support.command_line import User
from tests.support.obedient_server import Obedient, obeying
from tests.support.users import Call

HOUSE = '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
ROW = '[[providers.house.models]]\nmatch = "{}"\nstreaming = false\n'


def warned(call: Call) -> list[str]:
    """The warnings of a configuration that has no errors, with their lines."""
    done = call("check", "--format", "json")
    assert done.code == 0
    problems = json.loads(done.out)["problems"]
    assert all(one["severity"] == "warning" and one["file"].endswith(".toml") for one in problems)
    return [f"{one['line']}: {one['message']}" for one in problems]


def test_rows_that_never_hold(call: Call, user: User) -> None:
    user.configure(HOUSE + ROW.format("*") + ROW.format("small-1"))
    assert warned(call) == ['8: the row for "small-1" is never used: the earlier "*" matches the same models']
    folder = user.configuration / "providers"
    folder.mkdir()
    house = '[provider]\nname = "house"\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    file = folder / "house.toml"
    file.write_text(house + '[[models]]\nmatch = "small-*"\n[[models]]\nmatch = "small-1"\n')
    # A row of an outer layer is meant to go before those beneath.
    user.configure(ROW.format("small-*"))
    told = ['8: the row for "small-1" is never used: the earlier "small-*" matches the same models']
    assert warned(call) == told
    assert told[0].partition(": ")[2] in call("check", str(file)).out
    file.write_text(file.read_text().replace("small-1", "small-*"))
    done = call("check", str(file))
    assert done.code == exit_codes.INPUT
    assert f'{file}:8: error: two rows have match = "small-*"' in done.out


def test_carriers_and_fallbacks(call: Call, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    models = '[model]\ndefault = "house/m"\nfallback = ["house/m", "openai/m"]\n[agents.one]\nfallback = ["house/m"]\n'
    user.configure(models + HOUSE + 'carrier = "anthropic"\n')
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert warned(call) == [
        "3: model.fallback[0] is 'house/m', the model itself, which has already failed then",
        "3: the fallback openai/m cannot be used: its provider lacks the variable OPENAI_API_KEY",
        "5: agents.one.fallback[0] is 'house/m', the model itself, which has already failed then",
        "9: carrier applies only to protocol = \"prompted\", and 'house' uses openai-chat",
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert len(warned(call)) == 3


def test_rates_of_unknown_providers(call: Call, user: User) -> None:
    rate = "{ runs = 1, seconds = 60 }"
    names = ("anthropic", "score", "antropic", "nowhere")
    user.configure("[durable.provider_rates]\n" + "".join(f"{name} = {rate}\n" for name in names))
    assert warned(call) == [
        f"{line}: the rate applies to no run: there is no provider named {name!r}"
        for line, name in ((4, "antropic"), (5, "nowhere"))
    ]
    told = call("check").out
    assert "Did you mean 'anthropic'?" in told
    assert ", score, " in told


@pytest.mark.parametrize("broken", ['api_key = "{env:HOUSE_KEY"', 'headers = { A = "{env:A" }', 'api_version = "{"'])
def test_a_broken_template_ends_no_examination(call: Call, user: User, broken: str) -> None:
    user.configure(f"{HOUSE}{broken}\n")
    done = call("doctor", "--no-connect")
    assert done.code == exit_codes.INPUT
    assert "config.toml:4: error: " in done.out
    assert "Versions" in done.out
    checked = call("check")
    assert checked.code == exit_codes.INPUT
    assert "config.toml:4: error: " in checked.out


def test_a_cloud_has_credentials_of_its_own(call: Call) -> None:
    lines = [" ".join(line.split()) for line in call("doctor", "--full", "--no-connect").out.splitlines()]
    assert "bedrock anthropic credentials of its cloud default of bedrock" in lines
    (vertex,) = [line for line in lines if line.startswith("vertex anthropic")]
    assert vertex.startswith("vertex anthropic CLOUD_ML_REGION is not set, ")
    assert vertex.endswith(", credentials of its cloud default of vertex")
    assert "ollama openai-chat none needed http://127.0.0.1:11434/v1" in lines


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/v1", "https://example.org/v1"),
        ("https://me:hush@example.org/v1?key=hush&b", "https://[hidden]@example.org/v1?key=[hidden]&[hidden]"),
        ("https://{env:ME}:{env:WORD}@example.org/?key={env:KEY}", "https://{env:ME}:{env:WORD}@example.org/?key={env:KEY}"),
        ("https://{env:ME}:hush@example.org", "https://[hidden]@example.org"),
        ("https://me:hu/s?h@example.org/v1", "https://[hidden]@example.org/v1"),
        ("{env:HOUSE_URL}", "{env:HOUSE_URL}"),
        ("https://example.org/v1?next=http://a.b/c?d", "https://example.org/v1?next=[hidden]"),
        ("{env:HOUSE_URL}?key=hush", "{env:HOUSE_URL}?key=[hidden]"),
    ],
)  # fmt: skip
def test_addresses_are_shown_without_secrets(url: str, shown: str) -> None:
    assert show_address(url) == shown


def test_no_secret_of_an_address_is_printed(call: Call, user: User) -> None:
    user.configure(HOUSE.replace("http://127.0.0.1:9/v1", "http://me:hush@127.0.0.1:9/v1?key=hush"))
    for command in (
        ("doctor", "--no-connect", "--full"),
        ("doctor", "--no-connect", "--format", "json"),
        ("providers",),
        ("providers", "house", "--format", "json"),
    ):
        done = call(*command)
        assert done.code == 0
        assert "hush" not in done.out + done.err, command
        assert "127.0.0.1:9/v1?key=[hidden]" in done.out or command == ("providers",)


def test_a_second_probe_takes_effect_or_says_why_not(user: User, call: Call) -> None:
    rows = ROW.format("small-*") + 'text_form = "mistral"\n'
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(obeying(Obedient())) as url:
        text = HOUSE.replace("http://127.0.0.1:9/v1", url) + rows
        user.configure(text)
        done = call("probe", "house/small-1")
    assert (
        'Put the new row before the row match = "small-*" of [[providers.house.models]], which matches, too: only the '
        "first match is used."
    ) in done.err
    (row,) = tomllib.loads(done.out)["providers"]["house"]["models"]
    assert (row["match"], row["streaming"], row["text_form"]) == ("small-1", True, "mistral")
    user.configure(text + done.out)
    assert any('the row for "small-1" is never used' in one for one in warned(call))
    user.configure(text + done.out + done.out)
    assert "two rows have match" in call("check").out


def test_a_missing_key_is_reported_at_the_line_that_chooses_the_model(
    call: Call, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    user.configure('[model]\ndefault = "groq/small"\n[agents.one]\nmodel = "groq/large"\n')
    file = user.configuration / "config.toml"
    checked = call("check").out
    assert f"{file}:2: warning: the provider of groq/small lacks the variable GROQ_API_KEY" in checked
    assert "hint: Set it: export GROQ_API_KEY=…\n" in checked
    doctor = call("doctor", "--no-connect")
    assert f"{file}:2: warning: the provider of groq/small lacks the variable GROQ_API_KEY" in doctor.out
    why = "error: provider 'groq': api_key needs the variable GROQ_API_KEY, which is not set\n"
    for options, place in (
        ((), f'{file}:2: {why}  2 | default = "groq/small"\n'),
        (("--agent", "one"), f'{file}:4: {why}  4 | model = "groq/large"\n'),
        # No line of the user chooses it, and none of the package is to blame.
        (("-m", "groq/other"), why),
    ):
        asked = call("ask", *options, "Hello?")
        assert (asked.code, asked.err.startswith(place)) == (exit_codes.INPUT, True), asked.err
