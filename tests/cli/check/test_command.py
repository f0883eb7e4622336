"""``ripieno check``: warnings, files and folders that are named, and how it ends."""

import json
import pathlib

import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import BUNDLED, ROOT, User
from tests.support.users import Call

POOR = """
[ensemble]
name = "poor"
[[invokers]]
name = "count"
description = "Counts"
[invokers.invocable]
origin = "command"
argv = ["wc", "--", "{file}"]
[invokers.arguments]
type = "object"
required = ["file"]
[invokers.arguments.properties.file]
type = "string"
[[invokers]]
source = "poor/rich_tool.toml"
"""
RICH = """
[invoker]
name = "rich_tool"
description = "Has what it should"
effect = "none"
[invocable]
origin = "command"
argv = ["true"]
[arguments]
type = "object"
[arguments.properties.way]
type = "string"
"""


@pytest.fixture
def poor(user: User) -> pathlib.Path:
    file = user.ensemble("poor", POOR)
    (file.parent / "poor").mkdir()
    (file.parent / "poor" / "rich_tool.toml").write_text(RICH)
    return file


def test_warnings_have_their_lines_and_do_not_fail(call: Call, poor: pathlib.Path) -> None:
    done = call("check")
    assert (done.code, done.err) == (0, "")
    expected = {
        (f"{poor}:2", "the ensemble 'poor' has no description"),
        (f"{poor}:5", "not verb_noun: count"),
        (f"{poor}:4", "'count' declares no effect"),
        (f"{poor}:13", "the parameter 'file' of 'count' has no description"),
        (f"{poor.parent}/poor/rich_tool.toml:11", "the parameter 'way' of 'rich_tool' has no description"),
        (f"{poor.parent}/poor/rich_tool.toml:11", "the argument 'way' of 'rich_tool' is used nowhere"),
    }
    found = {tuple(line.split(": warning: ", 1)) for line in done.out.splitlines() if ": warning: " in line}
    assert {(where, message.partition(", so it")[0]) for where, message in found} == expected
    assert done.out.endswith(f"Checked {BUNDLED + 1} ensembles: 0 errors, 6 warnings.\n")
    assert call("check", "--strict").code == exit_codes.INPUT


def test_names_of_one_word_are_one_warning_for_their_ensemble(call: Call, user: User) -> None:
    tool = """
[[invokers]]
name = "{}"
description = "Does what it should"
effect = "none"
[invokers.invocable]
origin = "command"
argv = ["true"]
"""
    head = '[ensemble]\nname = "dice"\ndescription = "Dice"\n'
    file = user.ensemble("dice", head + "".join(map(tool.format, ("roll", "throw_all", "greet"))))
    done = call("check")
    warnings = [line for line in done.out.splitlines() if ": warning: " in line]
    assert warnings == [f"{file}:6: warning: not verb_noun: roll, greet"]


USES = """
[ensemble]
name = "uses"
description = "Uses some of its arguments"
[defaults]
effect = "read"
timeout = 5
[[invokers]]
name = "get_page"
description = "Gets"
arguments = { type = "object", required = ["u", "b"], properties = { u = {D}, q = {D}, h = {D}, gone = {D}, b = {D} } }
[invokers.invocable]
origin = "http"
method = "POST"
url = "http://127.0.0.1/{u}"
query = { q = "{q}" }
headers = { H = "{h}" }
json = [{ b = "{b}" }]
[[invokers]]
name = "run_it"
description = "Runs"
[invokers.invocable]
origin = "command"
argv = ["echo", "--", "{a}", { when = "w", argv = ["w"] }, { each = "e" }]
timeout_argument = "t"
[invokers.arguments]
type = "object"
required = ["a"]
properties.a = {D}
properties.w = {D}
properties.e = { type = "array", description = "D", items = {D} }
properties.t = { type = "number", description = "D", minimum = 1, maximum = 2 }
properties.gone = {D}
[[invokers]]
name = "think_hard"
description = "A function may read any argument"
invocable = { function = "json:dumps" }
arguments = { type = "object", properties = { any = {D} } }
"""


FAULTY = """
[ensemble]
name = "faulty"
description = "Has two errors"
module = "./dates.py"
[[invokers]]
name = "add_days"
description = "Adds."
effect = "none"
[[invokers]]
name = "get_it"
description = "Gets."
effect = "read"
invocable = { origin = "http", url = "https://{host}/x" }
arguments = { type = "object", required = ["host"], properties = { host = { type = "string", description = "D" } } }
"""


SECOND = """[[invokers]]
name = "drop_days"
description = "Subtracts."
effect = "none"
"""


def test_an_error_is_at_its_own_line_and_has_no_warnings_in_its_wake(call: Call, user: User) -> None:
    file = user.ensemble("faulty", FAULTY)
    done = call("check")
    assert [line for line in done.out.splitlines() if line.startswith(str(user.configuration))] == [
        f"{file}:5: error: the module of 'faulty' cannot be used: There is no Python file {file.parent}/dates.py.",
        f"{file}:14: error: an argument cannot set the scheme, the host or the port",
    ]
    assert done.out.endswith(f"Checked {BUNDLED + 1} ensembles: 2 errors, 0 warnings.\n")


WRONG_ORIGINS = """[ensemble]
name = "wrong"
description = "Has an unknown origin in each tool"

[[invokers]]
name = "measure_text"
description = "Counts words."
effect = "read"
[invokers.invocable]
origin = "comand"
argv = ["wc", "--", "{pth}"]

[[invokers]]
name = "list_text"
description = "Lists."
effect = "read"
[invokers.invocable]
origin = "shell"
argv = ["ls", "--", "{pth}"]
"""


def test_a_name_that_is_not_valid_is_reported_only_at_its_line(call: Call, user: User) -> None:
    file = user.ensemble("wrong", WRONG_ORIGINS.replace('name = "wrong"', 'name = "Wrong!"'))
    done = call("check", str(file))
    assert "name must be a name of lower-case letters" in done.out
    assert "ensemble ''" not in done.out
    assert f"{file}:10: error: There is no origin named 'comand'." in done.out


def test_an_unknown_origin_hides_no_other_error_of_its_tool(call: Call, user: User) -> None:
    # The first name is like one that exists; of the second tool, only its keys say which one was meant.
    file = user.ensemble("wrong", WRONG_ORIGINS)
    for arguments in ((), (str(file),)):
        done = call("check", *arguments)
        assert [line for line in done.out.splitlines() if line.startswith(str(file))] == [
            f"{file}:10: error: ensemble 'wrong': There is no origin named 'comand'. Did you mean 'command'?",
            f"{file}:11: error: 'pth' is not an argument",
            f"{file}:18: error: ensemble 'wrong': There is no origin named 'shell'. "
            "Known: client, command, http, mcp, python.",
            f"{file}:19: error: 'pth' is not an argument",
        ]
        assert done.code == exit_codes.INPUT
    # A start reports the same, and each place of one name.
    file.write_text(WRONG_ORIGINS.replace("shell", "comand"))
    started = call("tools")
    assert started.err.count("There is no origin named 'comand'") == started.err.count("'pth' is not an argument") == 2


def test_the_number_of_ensembles_is_the_same_with_and_without_errors(call: Call, user: User) -> None:
    file = user.ensemble("wrong", WRONG_ORIGINS)
    user.ensemble("mine", WRONG_ORIGINS.replace("wrong", "mine"), folder=user.workspace / "ensembles")
    for text in (WRONG_ORIGINS, WRONG_ORIGINS.replace("effect", "efect"), "not TOML"):
        file.write_text(text)
        done = call("check")
        # Also the ensemble of a folder that is not trusted, which is left out.
        assert f"Checked {BUNDLED + 2} ensembles:" in done.out
        assert "Left out: mine" in done.err
        # Without TOML, nothing says what the file is.
        assert f"Checked {1 - (text == 'not TOML')} ensemble" in call("check", str(file)).out
    assert "Checked 1 ensemble:" in call("check", str(user.workspace / "ensembles")).out


def test_a_missing_module_is_an_error_of_its_own_line_and_not_of_each_tool(call: Call, user: User) -> None:
    file = user.ensemble("faulty", FAULTY.partition('[[invokers]]\nname = "get_it"')[0] + SECOND)
    message = f"{file}:5: error: the module of 'faulty' cannot be used: There is no Python file {file.parent}/dates.py."
    user.configure('[ensembles]\ninclude = ["faulty"]\n')
    checked, started = call("check").out, call("tools").err
    for out in (checked, started):
        assert [line for line in out.splitlines() if line.startswith(str(user.configuration))] == [message]
    # A function that its module lacks is an error of its tool.
    (file.parent / "dates.py").write_text("def drop_days(context, arguments): ...\n")
    assert (
        f"{file}:6: error: the function of 'add_days' cannot be used: ./dates.py has no 'add_days'."
        in call("check").out
    )


def test_an_argument_that_nothing_uses_is_a_warning(call: Call, user: User) -> None:
    file = user.ensemble("uses", USES.replace("{D}", '{ type = "string", description = "D" }'))
    found = json.loads(call("check", str(file), "--no-import", "--format", "json").out)["problems"]
    assert [(one["line"], one["message"].partition(",")[0]) for one in found] == [
        (11, "the argument 'gone' of 'get_page' is used nowhere"),
        (33, "the argument 'gone' of 'run_it' is used nowhere"),
    ]


def test_an_effect_may_be_declared_anywhere(call: Call, poor: pathlib.Path) -> None:
    for text in (
        POOR + '[defaults]\neffect = "write"\n',
        POOR.replace('name = "count"', 'name = "count"\neffect = "write"'),
        POOR + '[defaults]\neffect = "read"\n',
    ):
        poor.write_text(text)
        assert "declares no effect" not in call("check").out


def test_what_is_bundled_gives_no_warning(call: Call) -> None:
    done = call("check", "--strict")
    assert (done.code, done.out) == (0, f"Checked {BUNDLED} ensembles: 0 errors, 0 warnings.\n")
    done = call("check", "--strict", str(ROOT / "data"))
    assert done.code == 0, done.out
    # The demo has a server that is not there, to show what becomes of it.
    done = call("check", str(ROOT / "data" / "demo"))
    assert done.code == 0
    assert done.out.count("warning: ") == 1
    assert "the program 'no-such-server' is not in PATH" in done.out


def test_named_files_are_checked_by_what_they_are(call: Call, user: User) -> None:
    files = {
        "ensemble.toml": ('[ensemble]\nname = "x"\ndescripton = "y"\ninvokers = []\n', ":3"),
        "invoker.toml": ('[invoker]\nname = "get_x"\ndescription = "y"\neffct = "none"\n', ":4"),
        "provider.toml": ('[provider]\nname = "x"\nprotocl = "y"\n', ":3"),
        "profile.toml": ('[profile]\nname = "x"\nensembles = [5]\n', ":3"),
        "score.toml": ('[score]\nname = "x"\n[[turns]]\ntexxt = "y"\n', ":4"),
        "config.toml": ("[limits]\nturns = 0.5\n", ":2"),
        "broken.toml": ("[", ":1"),
    }
    for name, (text, _) in files.items():
        (user.workspace / name).write_text(text)
    for name, (_, line) in files.items():
        done = call("check", name)
        assert done.code == exit_codes.INPUT, name
        assert f"{user.workspace / name}{line}: error: " in done.out
    done = call("check", ".")
    assert [name for name, (_, line) in files.items() if f"{name}{line}: error: " not in done.out] == []
    (user.workspace / "empty").mkdir()
    assert "no TOML file" in call("check", "empty").out
    assert call("check", "empty").code == exit_codes.INPUT
    assert "no such file" in call("check", "nowhere.toml").out


def test_the_name_of_an_ensemble_gets_the_command_that_checks_it(call: Call, poor: pathlib.Path) -> None:
    for named in ("poor", "poor.count"):
        done = call("check", named)
        assert done.code == exit_codes.INPUT
        assert f"'poor' is an ensemble. Did you mean: ripieno check {poor}" in done.out
    assert "an ensemble" not in call("check", "poor.toml").out


def test_a_named_configuration_is_checked_with_what_it_names(call: Call, user: User) -> None:
    (user.workspace / "mine").mkdir()
    (user.workspace / "mine" / "poor.toml").write_text(POOR.partition("[[invokers]]\nsource")[0])
    (user.workspace / "mine.toml").write_text('[ensembles]\npaths = ["mine"]\nenabled = ["poor", "pour"]\n')
    done = call("check", "mine.toml")
    assert done.code == exit_codes.INPUT
    assert "names the ensemble 'pour', which does not exist" in done.out
    assert "'count' declares no effect" in done.out


def test_functions_are_imported_unless_that_is_unwanted(call: Call, user: User) -> None:
    file = user.ensemble(
        "noisy",
        '[ensemble]\nname = "noisy"\ndescription = "x"\nmodule = "./noise.py"\n'
        '[[invokers]]\nname = "make_noise"\ndescription = "x"\neffect = "none"\n',
    )
    (file.parent / "noise.py").write_text("print('noise')\ndef make_noise(context, arguments): ...\n")
    done = call("check", "--no-import", "--format", "json")
    assert (done.code, done.err) == (0, "")
    done = call("check", "--format", "json")
    assert (done.code, done.err) == (0, "noise\n")
    assert json.loads(done.out)["problems"] == []


def test_a_file_with_errors_is_checked_for_its_functions_too_and_has_no_warnings(call: Call, user: User) -> None:
    file = user.ensemble(
        "half",
        '[ensemble]\nname = "half"\ndescripton = "x"\n'
        '[[invokers]]\nname = "one"\ndescription = "x"\neffects = "none"\n'
        'invocable = { origin = "python", function = "./absent.py:go" }\n',
    )
    for paths in ((), (str(file),)):
        done = call("check", *paths, "--format", "json")
        problems = json.loads(done.out)["problems"]
        assert [(one["line"], one["severity"]) for one in problems] == [(3, "error"), (7, "error"), (8, "error")]
        assert "There is no Python file" in problems[-1]["message"]
