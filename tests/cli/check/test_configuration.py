"""What ``ripieno check`` finds in the whole: tools of one name, idle rules, missing programs, replaced ensembles."""

import json
import pathlib
import re

import pytest

from ripieno.cli.common import exit_codes
from tests.assembly.test_plugins import install
from tests.support.command_line import PATIENCE, ROOT, User
from tests.support.users import Call, Done

FOLDER_PLUGIN = """
import pathlib
from ripieno.plugin import hookimpl
@hookimpl
def ripieno_data():
    return (pathlib.Path({!r}),)
"""
ENSEMBLE = """
[ensemble]
name = "{name}"
description = "Says hello"
[[invokers]]
name = "say_hello"
description = "Says hello"
effect = "none"
[invokers.invocable]
origin = "command"
argv = ["{program}", "hello"]
"""
SERVER = """
[ensemble]
name = "server"
description = "A server"
[connection]
origin = "mcp"
transport = "stdio"
command = {command}
"""


def ensemble(name: str, program: str = "echo") -> str:
    return ENSEMBLE.format(name=name, program=program)


def findings(done: Done) -> list[dict[str, str]]:
    problems: list[dict[str, str]] = json.loads(done.out)["problems"]
    return problems


def test_two_tools_of_one_name_are_found_before_a_start(call: Call, user: User) -> None:
    user.ensemble("one", ensemble("one"))
    two = user.ensemble("two", ensemble("two"))
    done = call("check")
    assert done.code == exit_codes.INPUT
    message = "two.say_hello and one.say_hello would both be offered as 'say_hello'"
    assert f"{two}:6: error: {message}\n" in done.out
    # A start says the same.
    hint = """Give 'two' a prefix, in its file: prefix = "two" under [ensemble]."""
    done = call("tools")
    assert (message in done.err, hint in done.err, hint in call("check").out) == (True, True, True), done.err
    two.write_text(ensemble("two").replace('name = "two"', 'name = "two"\nprefix = "two"'))
    assert call("check", "--strict").code == 0
    # Another prefix is advised where the ensemble's own name is taken.
    user.ensemble("one", ensemble("one").replace('name = "one"', 'name = "one"\nprefix = "two"'))
    assert """Give 'one' a prefix, in its file: prefix = "one" under""" in call("check").out


def test_ensembles_that_have_other_authors_are_left_out_where_their_names_clash(
    call: Call, user: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs"
    text = (
        ensemble("finches")
        .replace("say_hello", "read_file")
        .replace('name = "finches"', 'name = "finches"\nprefix = ""')
    )
    user.ensemble("finches", text, folder=folder / "ensembles")
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "ripieno-finches", "finches_plugin", FOLDER_PLUGIN.format(str(folder)))
    user.configure('[plugins]\nallow = ["ripieno-finches"]\n[ensembles]\nenabled = ["io", "finches"]\n')
    hint = "Leave out one of the two ensembles: name the others with enabled = […] under [ensembles]."
    for done in (call("check"), call("tools")):
        assert (done.code, hint in " ".join((done.out + done.err).split())) == (exit_codes.INPUT, True), done
    user.configure('[plugins]\nallow = ["ripieno-finches"]\n[ensembles]\nenabled = ["finches"]\n')
    assert (call("check", "--strict").code, call("tools").code) == (0, 0)


def test_all_bundled_ensembles_can_be_selected_together(call: Call, user: User) -> None:
    names = json.dumps([file.stem for file in (ROOT / "data" / "ensembles").glob("*.toml")])
    user.configure(f"[ensembles]\ninclude = {names}\n")
    done = call("check")
    assert (done.code, "0 errors" in done.out) == (0, True), done.out
    user.configure('[ensembles]\ninclude = ["file_read"]\n')
    assert call("check", "--strict").code == 0
    offered = [one["identity"] for one in json.loads(call("tools", "--format", "json").out)["tools"]]
    assert "io.read_file" in offered
    assert "file_read.head" in offered
    assert "file_read.read_file" not in offered
    # The file of a user's own is not a bundled one.
    user.ensemble("own", '[ensemble]\nname = "own"\n[[invokers]]\nsource = "read_file.toml"\n')
    bundled = ROOT / "data" / "ensembles" / "file_read" / "invokers" / "read_file.toml"
    (user.configuration / "ensembles" / "read_file.toml").write_text(bundled.read_text())
    assert "own.read_file and io.read_file would both be offered" in call("check").out


def test_only_what_plays_can_clash(call: Call, user: User) -> None:
    user.ensemble("one", ensemble("one"))
    user.ensemble("two", ensemble("two").replace('effect = "none"', 'effect = "none"\nenabled = false'))
    assert call("check", "--strict").code == 0
    user.ensemble("two", ensemble("two"))
    user.configure('[ensembles]\nenabled = ["io", "two"]\n')
    assert call("check", "--strict").code == 0


@pytest.mark.parametrize("key", ["approve", "ask", "deny"])
def test_a_rule_that_fits_no_tool_is_named_with_the_nearest(call: Call, user: User, key: str) -> None:
    user.configure(f'[confirmation]\n{key} = ["io.read_*", "io.write_fil", "io"]\n')
    done = call("check")
    assert done.code == 0
    file = user.configuration / "config.toml"
    assert f"{file}:2: warning: the pattern 'io.write_fil' in [confirmation] {key} matches no tool\n" in done.out
    assert "Did you mean 'io.write_file'" in done.out
    assert done.out.endswith("0 errors, 1 warning.\n")


def test_a_rule_with_a_misspelled_argument_is_named_with_the_nearest(call: Call, user: User) -> None:
    user.configure('[confirmation]\napprove = ["io.write_file(pth=docs/**)", "io.write_file(path=docs/**)"]\n')
    done = call("check")
    place = f"{user.configuration / 'config.toml'}:2: warning: "
    pattern = "the pattern 'io.write_file(pth=docs/**)' in [confirmation] approve"
    assert f"{place}{pattern} names 'pth', which is no argument\n" in done.out
    assert "Did you mean 'path'?" in done.out
    assert done.out.endswith("0 errors, 1 warning.\n")


def test_an_unknown_ensemble_is_named_with_its_place(call: Call, user: User) -> None:
    user.configure('[ensembles]\nprofile = "starter"\ninclude = ["git", "gti"]\n')
    shown = call("check").out
    place = f"{user.configuration / 'config.toml'}:3: error: "
    assert f"{place}[ensembles] include names the ensemble 'gti', which does not exist\n" in shown


def test_rules_for_what_cannot_be_known_are_left_alone(call: Call, user: User) -> None:
    user.ensemble("server", SERVER.format(command='["cat"]'))
    user.ensemble("spare", ensemble("spare"))
    user.configure(
        '[ensembles]\nenabled = ["io", "server"]\n'
        '[confirmation]\nask = ["server.anything", "serv*.x", "spare.say_*"]\ndeny = ["srver.anything"]\n'
    )
    (found,) = findings(call("check", "--format", "json"))
    assert found["message"].startswith("the pattern 'srver.anything' in [confirmation] deny")


def test_the_rules_of_a_project_have_their_lines(call: Call, user: User) -> None:
    file = user.workspace / "ripieno.toml"
    file.write_text('[confirmation]\ndeny = ["io.read_fil"]\n')
    assert f"{file}:2: warning: the pattern 'io.read_fil'" in call("check").out
    (user.workspace / "some.toml").write_text('[confirmation]\nask = ["nowhere"]\n')
    assert f"{user.workspace / 'some.toml'}:2: warning: the pattern 'nowhere'" in call("check", "some.toml").out


def test_programs_that_are_not_there_are_named(call: Call, user: User, tmp_path: pathlib.Path) -> None:
    one = user.ensemble("one", ensemble("one", "no-such-program"))
    assert call("check").code == 0
    assert f"{one}:11: warning: the program 'no-such-program' is not in PATH\n" in call("check").out
    one.write_text(ensemble("one", "./bin/hello"))
    assert f"{one}:11: warning: there is no program {one.parent}/bin/hello\n" in call("check").out
    program = one.parent / "bin" / "hello"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    assert f"{program} is not executable" in call("check").out
    program.chmod(0o755)
    assert call("check", "--strict").code == 0
    assert call("invoke", "one.say_hello").out == "hello\n"
    one.write_text(ensemble("one", str(tmp_path / "nowhere")))
    assert f"there is no program {tmp_path / 'nowhere'}" in call("check").out


def test_servers_that_are_not_there_are_named(call: Call, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = SERVER.format(command='["no-such-server"]')
    file = user.ensemble("server", absent)
    assert f"{file}:8: warning: the program 'no-such-server' is not in PATH" in call("check").out
    # A PATH of its own, and a server that does not play, are nobody's mistake.
    file.write_text(absent + 'environment = { PATH = "/opt" }\n')
    assert call("check", "--strict").code == 0
    file.write_text(
        SERVER.format(command='["no-such-server"]').replace("A server", 'x"\nenabled = false\ncategory = "x')
    )
    assert call("check", "--strict").code == 0
    # Without a ``python`` of that name, our own interpreter runs a server.
    file.write_text(SERVER.format(command='["python"]'))
    monkeypatch.setenv("PATH", "/nowhere")
    assert call("check", "--strict").code == 0


def test_an_ensemble_in_the_place_of_a_bundled_one_is_named(call: Call, user: User) -> None:
    mine = user.ensemble("io", ensemble("io"))
    bundled = ROOT / "sources" / "ripieno" / "data" / "ensembles" / "io.toml"
    expected = f"{mine}:3: warning: the ensemble 'io' ({mine}) replaces the bundled one ("
    done = call("check")
    assert done.code == 0
    assert expected in done.out
    assert "read_file, write_file, list_directory" in done.out
    assert expected in call("check", str(mine)).out
    assert call("check", str(bundled), "--strict").code == 0
    # One that stands in the configuration replaces it too.
    mine.unlink()
    user.configure('[[ensembles]]\ninvokers = []\n[ensembles.ensemble]\nname = "io"\ndescription = "x"\n')
    assert "the ensemble 'io' (" in call("check").out
    (user.configuration / "config.toml").unlink()
    # To disable the bundled one so is no accident.
    mine.write_text('invokers = []\n[ensemble]\nname = "io"\ndescription = "None"\nenabled = false\n')
    assert call("check", "--strict").code == 0


def test_an_ensemble_in_the_place_of_a_plugins_is_named(
    call: Call, user: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs"
    theirs = user.ensemble("birds", ensemble("birds"), folder=folder / "ensembles")
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "ripieno-birds", "birds_plugin", FOLDER_PLUGIN.format(str(folder)))
    user.configure('[plugins]\nallow = ["ripieno-birds"]\n[ensembles]\ninclude = ["birds"]\n')
    assert "replaces" not in call("check").out
    mine = user.ensemble("birds", ensemble("birds"))
    found = call("check").out
    assert f"{mine}:3: warning: the ensemble 'birds' ({mine}) replaces that of the plugin " in found
    assert f"({theirs})" in found


MANY = {
    "mine": """
[ensemble]
name = "mine"
[[invokers]]
name = "first_tool"
description = "First"
arguments = { type = "object", properties = { a = { type = "strin" } } }
invocable = { origin = "comand", argv = ["echo", "{a}"] }
[[invokers]]
name = "second_tool"
description = "Second"
arguments = { type = "object", properties = { a = { type = "string" } } }
invocable = { origin = "command", argv = ["echo", "{b}"] }
""",
    "shop": """
[ensemble]
name = "shop"
descripton = "A shop"
[[invokers]]
name = "get_price"
description = "The price"
efect = "read"
arguments = { type = "object", required = ["item"], properties = { item = { type = "strng" }, n = { minimum = "1" } } }
invocable = { origin = "command", argv = ["echo", "{item}", "{itm}"], timeout_argument = "item" }
[[invokers]]
name = "get_stock"
description = "The stock"
effect = "write"
cache = 5
arguments = { type = "object", properties = { unit = { enum = ["m", "km"] } } }
invocable = { origin = "commnd", argv = ["echo"], presets = { unit = "kn" } }
[[invokers]]
name = "get_name"
descripton = "The name"
argments = { type = "object", properties = { id = { type = "string" } }, required = ["id"] }
invocable = { origin = "command", argv = ["echo", "{id}"], sucess = [0] }
[[invokers]]
name = "get_size"
description = "The size"
arguments = { type = "object", requred = ["id"], properties = { id = { type = "string" } } }
invocable = { origin = "command", argv = ["echo", "{id}"] }
""",
    "web": """
[ensemble]
name = "web"
[[invokers]]
name = "get_page"
description = "Get"
arguments = { type = "object", properties = { a = { type = "string" } } }
invocable = { origin = "http", method = "FETCH", url = "https://example.org/{zz}" }
""",
    "srv": """
[ensemble]
name = "srv"
[connection]
origin = "mcp"
transport = "stdo"
command = ["x"]
""",
}
HOUSE = 'protocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
#: What only check compares while files have errors.
PATTERNS = " is the pattern "
AGENTS = """
[model]
default = "antropic/small"
[ensembles]
profile = "team"
include = ["gti"]
[agents.reviewer]
model = "anthropi/small"
tools = ["io.read_fil", "mine.*", "srv.anything"]
controls = { temperatur = 1 }
[agents.second]
tools = ["git.*", "nothing.*"]
"""


def test_the_first_run_reports_all_errors_with_file_and_line(call: Call, user: User) -> None:
    for name, text in MANY.items():
        user.ensemble(name, text)
    user.configure(AGENTS)
    (user.configuration / "profiles").mkdir()
    (user.configuration / "profiles" / "team.toml").write_text('[profile]\nname = "team"\nensemble = ["io"]\n')
    done = call("check", "--format", "json")
    assert done.code == exit_codes.INPUT
    errors = [one for one in findings(done) if one["severity"] == "error"]
    lines = [(pathlib.Path(one["file"]).stem, one["line"], one["message"].split(",")[0]) for one in errors]
    assert lines == [
        ("config", 3, "model.default names the provider 'antropic'"),
        ("config", 6, "[ensembles] include names the ensemble 'gti'"),
        ("config", 8, "agents.reviewer.model names the provider 'anthropi'"),
        ("config", 9, "agents.reviewer.tools[0] is the pattern 'io.read_fil'"),
        ("config", 10, "controls has no key temperatur"),
        ("config", 12, "agents.second.tools[1] is the pattern 'nothing.*'"),
        ("mine", 7, "JSON Schema has no type 'strin'"),
        ("mine", 8, "ensemble 'mine': There is no origin named 'comand'. Did you mean 'command'?"),
        ("mine", 13, "'b' is not an argument"),
        ("shop", 4, "[ensemble] has no key descripton"),
        ("shop", 8, "[[invokers]] has no key efect"),
        ("shop", 9, "JSON Schema has no type 'strng'"),
        ("shop", 9, "invokers[0].arguments.properties.n.minimum must be a number"),
        ("shop", 10, "'itm' is not an argument"),
        ("shop", 15, "a result of effect 'write' cannot be reused"),
        ("shop", 17, 'the preset does not fit its argument: `unit` must be one of "m"'),
        ("shop", 17, "ensemble 'shop': There is no origin named 'commnd'. Did you mean 'command'?"),
        ("shop", 20, "[[invokers]] has no key descripton"),
        ("shop", 21, "[[invokers]] has no key argments"),
        ("shop", 22, "[invocable] has no key sucess"),
        ("shop", 26, "JSON Schema has no keyword 'requred'"),
        ("srv", 6, 'transport must be one of "stdio"'),
        ("web", 8, 'method must be one of "GET"'),
        ("web", 8, "'zz' is not an argument"),
        ("team", 3, "[profile] has no key ensemble"),
    ]
    # Commands that use ensembles report the same of the files, and end with the command that checks all.
    lines = {
        f"{one['file']}:{one['line']}: error: {one['message']}" for one in errors if PATTERNS not in one["message"]
    }
    for command in (["tools"], ["ensembles"], ["ask", "-m", "score:demo", "x"], ["login", "shop"], ["lock"]):
        started = call(*command)
        assert started.code == exit_codes.INPUT, command
        assert lines == {line for line in started.err.splitlines() if ": error: " in line}, command
        assert started.err.endswith("ripieno check\n"), command
    alone = call("check", str(user.places.configuration / "ensembles" / "mine.toml"), "--format", "json")
    assert [one["line"] for one in findings(alone) if one["severity"] == "error"] == [7, 8, 13]


WRONG = """
[ensembles]
enabled = ["io", "gti"]
inclde = ["python"]
[agents.one]
toolz = ["x"]
tools = ["nothing.x", "io.nope", "house.x"]
model = "antropic/x"
[model]
defaul = "x/y"
fallback = ["antropic/x", "house/x", "hut/x"]
[gateway]
ensembles = ["gti"]
modls = []
[providers.house]
base_ur = "http://127.0.0.1:9/v1"
protocol = "openai-chatt"
[providers.hut]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
[providers.shed]
cloud = "azur"
retries = -1
[confirmation]
deny = ["io.read_fil"]
[configuration.shel]
key = 1
"""


def test_wrong_names_are_reported_together_with_wrong_keys(call: Call, user: User) -> None:
    user.configure(WRONG)
    (user.configuration / "profiles").mkdir()
    team = '[profile]\nname = "team"\nensemble = ["io"]\nensembles = ["oi"]\n'
    (user.configuration / "profiles" / "team.toml").write_text(team)
    file = user.configuration / "config.toml"
    found = findings(call("check", "--format", "json"))
    (unplaced,) = (one["message"] for one in found if not one["file"])
    assert unplaced.startswith("There is no ensemble named 'shel'. ")
    assert f"at {file}:26." in unplaced
    lines = [(one["line"], one["message"].partition(",")[0]) for one in found if one["file"]]
    assert lines == [
        (3, "[ensembles] enabled names the ensemble 'gti'"),
        (4, "[ensembles] has no key inclde"),
        (6, "[agents.<name>] has no key toolz"),
        (7, "agents.one.tools[0] is the pattern 'nothing.x'"),
        (7, "agents.one.tools[1] is the pattern 'io.nope'"),
        (7, "agents.one.tools[2] is the pattern 'house.x'"),
        (8, "agents.one.model names the provider 'antropic'"),
        (10, "[model] has no key defaul"),
        (11, "model.fallback[0] names the provider 'antropic'"),
        (13, "gateway.ensembles[0] names the ensemble 'gti'"),
        (14, "[gateway] has no key modls"),
        # What such a provider lacks besides, here an address and a protocol, is no further error.
        (16, "[providers.<name>] has no key base_ur"),
        (17, "protocol names the protocol 'openai-chatt'"),
        (23, "retries must be a whole number from 0 to 10"),
        (3, "[profile] has no key ensemble"),
        (25, "the pattern 'io.read_fil' in [confirmation] deny matches no tool"),
        (4, "the profile 'team' names the ensemble 'oi'"),
    ]
    # A start reports the same of what it uses; with the profile, also its names.
    started = call("tools", "--profile", "team")
    assert started.code == exit_codes.INPUT
    assert {f"{file}:{line}:" for line in (3, 4, 6, 8, 10, 11, 14, 16, 17, 23)} == {
        line.partition(" ")[0] for line in started.err.splitlines() if line.startswith(f"{file}:")
    }
    assert "There is no ensemble named 'oi'" in started.err


def test_commands_without_ensembles_work_while_ensembles_have_errors(call: Call, user: User) -> None:
    user.ensemble("shop", MANY["shop"])
    user.configure('[ensembles]\ninclude = ["shop"]\n[configuration.shop]\nkey = 1\n[providers.house]\n' + HOUSE)
    errors = {str(one["line"]) for one in findings(call("check", "--format", "json")) if one["severity"] == "error"}
    assert errors == {
        "4",
        "8",
        "9",
        "10",
        "15",
        "17",
        "20",
        "21",
        "22",
        "26",
    }  # None says that there is no ensemble "shop".
    done = call("providers", "house")
    assert (done.code, "house" in done.out, done.err.count("\n")) == (0, True, 1)
    assert "To see why: ripieno check" in done.err
    assert call("journal", "list").code == call("schema", "ensemble").code == 0
    done = call("doctor", "--no-connect", "--format", "json")
    facts = json.loads(done.out)
    assert done.code == exit_codes.INPUT
    assert "house" in [one["name"] for one in facts["providers"]]
    assert "There is no origin named 'commnd'" in "".join(facts["failures"])
    # An error in the configuration may concern the providers: they are listed as far as they are known.
    user.configure('[model]\ndefalt = "house/small"\n[ensembles]\ninclude = ["nothing"]\n[providers.house]\n' + HOUSE)
    done = call("providers")
    assert (done.code, "house" in done.out) == (exit_codes.INPUT, True)
    assert "config.toml:2: error: [model] has no key defalt" in done.err
    assert "shop" not in done.err
    assert "names the ensemble 'nothing', which does not exist" in call("check").out


def test_a_default_that_its_argument_refuses_is_a_warning(call: Call, user: User) -> None:
    properties = (
        'a = { type = "integer", default = "5" }, b = { enum = ["m", "km"], default = "kn" }, '
        'c = { default = 5 }, d = { "$ref" = "#/properties/a", default = 5 }'
    )
    arguments = f'arguments = {{ type = "object", properties = {{ {properties} }} }}\neffect'
    user.ensemble("mine", ENSEMBLE.format(name="mine", program="echo").replace("effect", arguments))
    found = [one for one in findings(call("check", "--format", "json")) if one["message"].startswith("the default")]
    assert [(one["line"], one["severity"], one["message"].partition(": ")[2], one["hint"]) for one in found] == [
        (8, "warning", '`a` must be an integer, not a string: "5"', "Write default = 5, without quotes."),
        (8, "warning", '`b` must be one of "m", "km", not "kn"', "Known: km, m."),
    ]


def test_a_pattern_of_an_agent_must_match_an_enabled_tool(call: Call, user: User) -> None:
    user.configure('[ensembles]\nenabled = ["io"]\n[agents.one]\ntools = ["io.*", "git.git_log"]')
    done = call("check", "--format", "json")
    (problem,) = findings(done)
    assert (done.code, problem["line"]) == (exit_codes.INPUT, 4)
    assert problem["message"] == "agents.one.tools[1] is the pattern 'git.git_log', which matches no tool"
    assert 'include = ["git"]' in problem["hint"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gateway]\n", "the gateway has no model to serve"),
        ('[model]\ndefault = "groq/small"\n', "the provider of groq/small lacks the variable GROQ_API_KEY"),
        ('[agents.one]\nmodel = "groq/small"\n', "the provider of groq/small lacks the variable GROQ_API_KEY"),
        ('[gateway]\nmodels = ["ollama/small"]\n', None),
    ],
)
def test_what_a_start_will_need_is_a_warning(
    call: Call, user: User, monkeypatch: pytest.MonkeyPatch, text: str, message: str | None
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    user.configure(text)
    done = call("check", "--format", "json")
    assert (done.code, [one["message"] for one in findings(done)]) == (0, [message] if message else [])


def test_a_named_ensemble_that_its_own_file_disables(call: Call, user: User) -> None:
    file = user.ensemble("off", ensemble("off").replace("[[", "enabled = false\n[[", 1))
    user.configure('[ensembles]\nenabled = [\n  "io",\n  "off",\n]\n')
    (problem,) = findings(call("check", "--format", "json"))
    assert (problem["severity"], problem["line"]) == ("warning", 4)
    assert problem["message"] == f"[ensembles] names the ensemble 'off', which is disabled: enabled = false in {file}"
    assert f"off enabled = false in {file}." in " ".join(call("tools", "--all").out.split("UNAVAILABLE")[1].split())
    # Where it was not asked for, it is not named.
    for arguments in (("tools", "--ensemble", "io"), ("tools", "--all", "--profile", "starter")):
        done = call(*arguments)
        assert "off" not in (*done.out.split(), *done.err.split()), done


def test_a_broken_file_of_the_folder_is_an_error_also_while_it_is_not_trusted(call: Call, user: User) -> None:
    (user.workspace / "ripieno.toml").write_text('[ensembles]\nenabled = ["io\n')
    done = call("check", "--format", "json")
    assert done.code == exit_codes.INPUT
    assert [(one["severity"], one["line"]) for one in findings(done)] == [("error", 2)]


SLACK = """
[ensemble]
name = "slack"
description = "Counts"
[[invokers]]
name = "count_words"
description = "Counts words."
[invokers.arguments]
type = "object"
[invokers.arguments.properties.most]
type = "integer"
minimum = 5
default = 1
description = "The most."
[invokers.invocable]
origin = "process"
command = ["wc", "{most}"]
"""


def test_what_needs_no_trust_is_found_in_a_folder_that_is_not_trusted(call: Call, user: User) -> None:
    (user.workspace / "ensembles").mkdir()
    (user.workspace / "ensembles" / "slack.toml").write_text(SLACK)
    (user.workspace / "ripieno.toml").write_text("")
    before = call("check")
    assert "Left out: slack" in before.err
    alone = call("check", "ensembles/slack.toml")
    (folder,) = {line.partition("slack.toml:")[0] for line in alone.out.splitlines() if "slack.toml:" in line}
    warnings = [line for line in alone.out.splitlines() if ": warning: " in line]
    assert [line.removeprefix(folder) for line in warnings] == [
        "slack.toml:5: warning: 'count_words' declares no effect, so it counts as a write and asks before each call",
        "slack.toml:13: warning: the default does not fit its argument: `most` must be at least 5, not 1",
    ]
    # The same, wherever the file is checked from.
    assert [line for line in before.out.splitlines() if ": warning: " in line] == warnings


@pytest.mark.parametrize(
    ("library", "settings", "severity", "install"),
    [
        ("psycopg", '[journal]\nurl = "postgresql://ada@localhost/ripieno"\n', "error", "ripieno[postgres]"),
        ("dbos", "[durable]\nslots = 2\n", "warning", "ripieno[durable]"),
    ],
)
def test_the_extra_that_a_setting_needs_is_named_where_it_is_not_installed(
    user: User, library: str, settings: str, severity: str, install: str
) -> None:
    user.configure(settings)
    assert library not in user.run("check").stdout
    # An interpreter that cannot import it.
    blocked = f"import sys; sys.modules[{library!r}] = None; from ripieno.cli import main; sys.exit(main())"
    with user.python("-c", blocked, "check") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == (exit_codes.INPUT if severity == "error" else exit_codes.GOOD), (out, err)
    assert re.search(rf"config.toml:\d: {severity}: .+ needs the library {library}, which is not installed", out)
    assert f"hint: Install it: pip install '{install}'" in out
    assert user.run("check").returncode == exit_codes.GOOD


_BLOCKED = """
import sys
from importlib import metadata
real, sys.modules["dbos"], sys.modules["psycopg"] = metadata.version, None, None
def version(name):
    if name == "dbos":
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.version = version
from ripieno.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("command", [("check",), ("doctor", "--no-connect")])
def test_one_extra_is_named_for_all_that_is_not_installed(user: User, command: tuple[str, ...]) -> None:
    user.configure('[journal]\nurl = "postgresql://ada@localhost/ripieno"\n\n[durable]\nslots = 2\n')
    with user.python("-c", _BLOCKED, *command) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == exit_codes.INPUT, (out, err)
    assert set(re.findall("pip install \\S+", out)) == {"pip install 'ripieno[durable]'"}, out
    assert "needs the library psycopg" in out


TEXTS = """
[ensemble]
name = "texts"
description = "Counts"
[[invokers]]
name = "count_words"
description = "Counts words."
effect = "none"
[invokers.invocable]
origin = "command"
argv = {argv}
[invokers.arguments]
type = "object"
[invokers.arguments.properties.a]
type = "string"
description = "Words."
default = "x"
"""


@pytest.mark.parametrize(
    ("argv", "place", "hint"),
    [
        ('["sh", "-c", "echo {a} | wc"]', "argv[2]", '"sh", "{a}"]'),
        ('["env", "/bin/bash", "-lc", "echo {a}"]', "argv[3]", '"sh", "{a}"]'),
        ('["zsh", {when = "a", argv = ["-c", "echo {a}"]}]', "argv[1].argv[1]", '"sh", "{a}"]'),
        ('["python3", "-c", "print(\'{a}\')"]', "argv[2]", 'argv = [..., "{a}"]'),
        ('["node", "-e", "log(\'{a}\')"]', "argv[2]", 'argv = [..., "{a}"]'),
        ('["sh", "-c", "echo \\"$1\\" | wc", "sh", "{a}"]', "", ""),
        ('["sh", "-c", "{a}"]', "", ""),
        ('["wc", "-c", "x{a}"]', "", ""),
    ],
)
def test_an_argument_inside_the_text_of_a_program(call: Call, user: User, argv: str, place: str, hint: str) -> None:
    user.ensemble("texts", TEXTS.replace("{argv}", argv))
    found = [one for one in findings(call("check", "--format", "json")) if "is run as code" in one["message"]]
    assert [one["key"] for one in found] == ([f"invokers[0].invocable.{place}"] if place else [])
    assert all(hint in one["hint"] for one in found)


def test_a_misspelt_profile_has_a_line_and_hides_no_other_error(call: Call, user: User) -> None:
    user.configure('[ensembles]\nprofile = "standrd"\ninclude = ["gti"]\n')
    file = user.configuration / "config.toml"
    expected = (
        f"{file}:2: error: [ensembles] profile names the profile 'standrd', which does not exist",
        "Did you mean 'standard'?",
        f"{file}:3: error: [ensembles] include names the ensemble 'gti', which does not exist",
    )
    done = call("check")
    assert (done.code, [one for one in expected if one not in done.out]) == (exit_codes.INPUT, [])
    assert [one for one in expected if one not in call("tools").err] == []
