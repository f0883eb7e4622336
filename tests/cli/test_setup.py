"""``ripieno new``, ``trust`` and ``doctor``: setting up, and seeing what is set up."""

import json
import re
import tomllib

import jsonschema
import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import ROOT, Screen, User
from tests.support.users import Call, Done


def test_a_new_ensemble_works_and_has_nothing_to_warn_of(call: Call, user: User) -> None:
    done = call("new", "ensemble", "mine")
    assert done.code == 0
    file, module = (
        user.configuration / "ensembles" / "mine.toml",
        user.configuration / "ensembles" / "mine" / "tools.py",
    )
    assert f"Wrote {file}\nWrote {module}\n" in done.out
    assert "ripieno invoke mine.greet_person name=Ada" in done.out
    assert call("check", "--strict").code == 0
    assert call("invoke", "mine.greet_person", "name=Ada") == Done(0, "Hello, Ada!\n", "")
    assert call("invoke", "mine.greet_person", "name=Ada", "greeting=Ciao").out == "Ciao, Ada!\n"
    empty = call("invoke", "mine.greet_person", "name= ")
    assert (empty.code, "The name is empty" in empty.err) == (exit_codes.REFUSED, True)


def test_an_editor_finds_the_schema_of_a_new_ensemble(call: Call, user: User) -> None:
    """As Taplo does: the first line names a file, from the folder of the document."""
    for folder in (user.configuration / "ensembles", user.workspace / "tools"):
        options = () if folder.name == "ensembles" else ("--folder", str(folder))
        done = call("new", "ensemble", "mine" if not options else "yours", *options)
        (document,) = folder.glob("*.toml")
        text = document.read_text()
        found = re.match(r"#:schema (\./\S+)\n", text)
        assert found is not None
        file = folder / found[1]
        assert f"Wrote {file}\n" in done.out
        schema = json.loads(file.read_text())
        assert schema == json.loads(call("schema", "ensemble").out)
        jsonschema.Draft202012Validator(schema).validate(tomllib.loads(text))
        mistyped = tomllib.loads(text.replace("effect =", "efect ="))
        assert not jsonschema.Draft202012Validator(schema).is_valid(mistyped)


def test_an_older_schema_is_replaced_and_another_file_is_not(call: Call, user: User) -> None:
    call("new", "ensemble", "one")
    file = user.configuration / "ensembles" / "ensemble.schema.json"
    new = file.read_text()
    file.write_text(json.dumps({"title": json.loads(new)["title"]}))
    assert f"Wrote {file}\n" in call("new", "ensemble", "two").out
    assert file.read_text() == new
    for name, text in (("three", "[]"), ("four", '{"title": "mine"}'), ("five", "no JSON")):
        file.write_text(text)
        assert f"Kept {file}" in call("new", "ensemble", name).out
        assert file.read_text() == text


def test_two_new_ensembles_play_together(call: Call) -> None:
    long = "ensemble-" + "x" * 40
    for name in ("mine", "yours", long):
        assert call("new", "ensemble", name).code == 0
    assert call("check", "--strict").code == 0
    listed = json.loads(call("tools", "--format", "json").out)["tools"]
    assert {one["name"] for one in listed} > {"mine__greet_person", "yours__greet_person"}
    assert call("invoke", f"{long}.greet_person", "name=Ada").code == 0


def test_a_bundled_name_is_refused_before_anything_is_written(call: Call, user: User) -> None:
    done = call("new", "ensemble", "io")
    assert done.code == exit_codes.INPUT
    assert "io.toml" in done.err
    assert "ripieno new ensemble my-io" in done.err
    assert not any(user.configuration.iterdir())
    assert call("new", "ensemble", "io", "--folder", "tools").code == exit_codes.INPUT
    assert call("new", "ensemble", "my-io").code == 0


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["greetings"], "ripieno new ensemble greetings"),
        (["tool", "greetings"], "ripieno new ensemble greetings"),
        (["ensembl", "greetings"], "ripieno new ensemble greetings"),
        (["greetings", "--folder", "my tools"], "ripieno new ensemble greetings --folder 'my tools'"),
    ],
)
def test_a_kind_that_was_left_out_is_named(call: Call, user: User, arguments: list[str], command: str) -> None:
    done = call("new", *arguments)
    assert done.code == exit_codes.INPUT
    assert f"Did you mean: {command}\n" in done.err
    assert not any(user.configuration.iterdir())


def test_nothing_is_overwritten(call: Call, user: User) -> None:
    assert call("new", "ensemble", "mine").code == 0
    file = user.configuration / "ensembles" / "mine.toml"
    file.write_text("# mine\n")
    done = call("new", "ensemble", "mine")
    assert (done.code, file.read_text()) == (exit_codes.INPUT, "# mine\n")
    assert str(file) in done.err


def test_a_new_ensemble_elsewhere_says_how_it_comes_to_play(call: Call, user: User) -> None:
    done = call("new", "ensemble", "mine", "--folder", "tools")
    assert done.code == 0
    assert f"ripieno check {user.workspace}/tools/mine.toml" in done.out
    assert call("check", str(user.workspace / "tools")).code == 0
    (user.workspace / "some.toml").write_text('[ensembles]\npaths = ["tools"]\n')
    assert call("--config", "some.toml", "invoke", "mine.greet_person", "name=Ada").code == 0


def test_a_new_ensemble_that_the_configuration_does_not_name(call: Call, user: User) -> None:
    user.configure('[ensembles]\nenabled = ["io"]\n')
    assert 'include = ["mine"] under [ensembles]' in call("new", "ensemble", "mine").out


def test_an_ensemble_in_the_folder_of_a_project_is_used_after_trust(call: Call, user: User) -> None:
    done = call("new", "ensemble", "mine", "--folder", "./ensembles")
    *_, trusting, calling = done.out.splitlines()
    assert trusting == "To enable it, run: ripieno trust"
    # Named by its path, it is used without trust, and not left out.
    (user.workspace / "some.toml").write_text('[ensembles]\npaths = ["ensembles"]\n')
    named = call("invoke", "--config", "some.toml", *calling.removeprefix("Then: ripieno invoke ").split())
    assert (named.code, named.out, named.err) == (0, "Hello, Ada!\n", "")
    assert call(*trusting.rpartition("ripieno ")[2].split(), "--yes").code == 0
    assert call(*calling.removeprefix("Then: ripieno ").split()).out == "Hello, Ada!\n"
    (user.workspace / "ripieno.toml").write_text('[ensembles]\nenabled = ["io"]\n')
    done = call("new", "ensemble", "other", "--folder", "./ensembles")
    assert f"add 'other' to enabled in {user.workspace / 'ripieno.toml'}, then run: ripieno trust\n" in done.out


@pytest.mark.parametrize(("name", "proposal"), [("My Tools", "my-tools"), ("2day", "day"), ("../up", "up"), ("_", "")])
def test_a_name_that_cannot_be(call: Call, user: User, name: str, proposal: str) -> None:
    done = call("new", "ensemble", name)
    assert done.code == exit_codes.INPUT
    assert repr(name) in done.err
    assert (f"For example: '{proposal}'" in done.err) is bool(proposal)
    assert not any(user.configuration.iterdir())


def test_trust_lists_what_it_covers_and_can_be_taken_back(call: Call, user: User) -> None:
    assert call("trust").code == exit_codes.INPUT
    (user.workspace / "ripieno.toml").write_text('[model]\ndefault = "ollama/x"\n[plugins]\nallow = []\n')
    assert json.loads(call("doctor", "--format", "json").out)["project"]["trust"] == "not trusted"
    done = call("trust", ".", "--yes")
    assert done.code == 0
    assert str(user.workspace / "ripieno.toml") in done.out
    seen = json.loads(call("doctor", "--format", "json").out)
    assert (seen["project"]["trust"], seen["configuration"]["model"]) == ("trusted", "ollama/x")
    assert [one["name"] for one in seen["left_out"]] == ["[plugins]"]
    (user.workspace / "ripieno.toml").write_text('[model]\ndefault = "ollama/y"\n')
    assert json.loads(call("doctor", "--format", "json").out)["project"]["trust"] == "changed since it was trusted"
    assert "[model]" in (listed := call("ensembles").err)
    assert "its folder has changed since you trusted it. Review its files, then run: ripieno trust\n" in listed
    (user.workspace / "ensembles").mkdir()
    (user.workspace / "ensembles" / "slip.toml").write_text('[ensemble]\nnam = "slip"\n')
    (user.workspace / "ensembles" / "good.toml").write_text('invokers = []\n[ensemble]\nname = "good"\n')
    (row,) = [line.split() for line in call("ensembles").out.splitlines() if line.startswith("good ")]
    assert row[:6] == ["good", "left", "out", "project", "Not", "loaded:"]
    slipped = call("trust", "--yes")
    assert "Trusted 3 files of" in slipped.out
    assert "slip.toml:2: error: " in slipped.err
    assert "no longer trusted" in call("trust", "--remove").out
    assert "was not trusted" in call("trust", "--remove").out


def test_a_misnamed_configuration_is_reported(call: Call, user: User) -> None:
    (user.configuration / "ripieno.toml").write_text('[model]\ndefault = "ollama/x"\n')
    for command in ("check", "tools"):
        assert "your own configuration is config.toml in this folder. Rename it." in call(command).err


def test_a_store_of_trust_that_cannot_be_read_is_no_trust(call: Call, user: User) -> None:
    (user.workspace / "ripieno.toml").write_text('[model]\ndefault = "ollama/x"\n')
    user.state.mkdir()
    (user.state / "trust.json").write_text("{")
    done = call("tools")
    assert done.code == exit_codes.INPUT
    assert "trust.json" in done.err


def test_the_doctor_sees_everything(call: Call, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.ensemble("off", 'invokers = []\n[ensemble]\nname = "off"\nenabled = false\n')
    user.ensemble(
        "dead",
        '[ensemble]\nname = "dead"\n[connection]\norigin = "mcp"\ntransport = "stdio"\ncommand = ["no-such-program"]\n',
    )
    user.ensemble("io", (ROOT / "data" / "ensembles" / "io.toml").read_text().replace("source", "# source"))
    user.configure('[providers.mine]\nprotocol = "openai-chat"\nbase_url = "http://h/v1"\napi_key = "{env:MINE_KEY}"\n')
    broken = json.loads(call("doctor", "--format", "json").out)
    assert broken["failures"]
    (user.configuration / "ensembles" / "io.toml").unlink()
    done = call("doctor", "--format", "json")
    assert done.code == exit_codes.INPUT
    seen = json.loads(done.out)
    ensembles = {one["name"]: one for one in seen["ensembles"]}
    assert (ensembles["io"]["ready"], ensembles["io"]["tools"]) == (True, 3)
    assert (ensembles["dead"]["ready"], "no-such-program" in ensembles["dead"]["reason"]) == (False, True)
    assert (ensembles["off"]["ready"], "enabled = false" in ensembles["off"]["reason"]) == (False, True)
    assert any("'dead'" in failure for failure in seen["failures"])
    providers = {one["name"]: one for one in seen["providers"]}
    assert providers["mine"]["variables"] == {"MINE_KEY": False}
    monkeypatch.setenv("MINE_KEY", "very secret")
    done = call("doctor", "--format", "json")
    assert {one["name"]: one for one in json.loads(done.out)["providers"]}["mine"]["ready"] is True
    assert "very secret" not in done.out
    assert {layer["name"] for layer in seen["layers"]} == {"package", "user"}
    assert seen["places"]["workspace"] == str(user.workspace)


def test_the_doctor_finds_names_that_clash(call: Call, user: User) -> None:
    for name in ("one", "two"):
        user.ensemble(
            name,
            f'[ensemble]\nname = "{name}"\n[[invokers]]\nname = "do_it"\ndescription = "x"\neffect = "none"\n'
            '[invokers.invocable]\norigin = "command"\nargv = ["true"]\n',
        )
    done = call("doctor")
    assert done.code == exit_codes.INPUT
    assert "one.do_it" in done.out
    assert "two.do_it" in done.out
    assert call("doctor", "--no-connect").code == 0


def test_the_doctor_shows_a_line_for_each_section_and_what_needs_attention(call: Call, user: User) -> None:
    user.ensemble(
        "dead", '[ensemble]\nname = "dead"\nrequired = false\n[connection]\norigin = "mcp"\ncommand = ["no"]\n'
    )
    user.configure('[ensembles]\nenabled = ["io", "dead"]\n')
    done = call("doctor")
    lines = [re.split(" {2,}", line) for line in done.out.splitlines()]
    assert done.code == exit_codes.GOOD
    assert ["Model", "none; set default under [model], or use -m"] in lines
    (ensembles,) = [text for name, *text in lines if name == "Ensembles"]
    assert ensembles[0].endswith("; ready: io")
    shown = done.out.partition("\nEnsembles that need attention\n")[2].splitlines()
    assert [line.split()[0] for line in shown[: shown.index("")]] == ["NAME", "dead"]
    assert "All of each section: ripieno doctor --full\nEverything required can start." in done.out
    assert "BASE URL" not in done.out
    assert len(done.out.splitlines()) < 30


def test_the_doctor_at_a_terminal(user: User) -> None:
    with Screen(user, "doctor", "--full", COLUMNS="150") as screen:
        assert screen.end() == 0
        for title in ("Versions", "Layers", "Providers", "Ensembles", "Everything can start."):
            assert title in screen.text


def test_the_doctor_says_which_sandbox_holds_here(call: Call, user: User) -> None:
    done = call("doctor", "--no-connect", "--format", "json")
    shown = call("doctor", "--no-connect", "--full")
    assert done.code == 0, done.err
    facts = json.loads(done.out)["sandbox"]
    assert facts["name"].startswith(f"tier {facts['tier']} (")
    assert (facts["missing"] is None) == (facts["tier"] > 0 or facts["level"] != "required")
    assert facts["tier"] == 2 or facts["reason"]
    assert "\nSandbox\n" in shown.out
    assert facts["name"] in shown.out
    assert facts["network"] == "for tools that declare it"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('level = "off"\nnetwork = false', {"level": "off", "tier": 0, "network": "for no tools", "missing": None}),
        ('provider = "cubes"\nnetwork = true', {"tier": 3, "name": "tier 3 (cubes)", "network": "for all tools"}),
        ('readable = ["/srv/x"]\nwritable = ["y"]\nlevel = "off"', {"readable": ["/srv/x"]}),
    ],
)
def test_the_doctor_says_what_the_user_configures_of_the_sandbox(
    table: str, expected: dict[str, object], call: Call, user: User
) -> None:
    user.configure(f"[sandbox]\n{table}\n")
    done = call("doctor", "--no-connect", "--format", "json")
    facts = json.loads(done.out)["sandbox"]
    assert {name: facts[name] for name in expected} == expected
    assert all(path.startswith("/") for path in facts["writable"])
    shown = call("doctor", "--no-connect", "--full")
    assert "\nnetwork" in shown.out
