"""``ripieno trust`` shows what it is about to trust before it asks, and ``check`` imports no code before that."""

import json
import pathlib
import time

import pytest

from ripieno.assembly.open_assemblies import marked
from ripieno.assembly.trust import TrustStore, find_project
from ripieno.cli.common import exit_codes
from tests.assembly.test_plugins import install
from tests.support.command_line import Screen, User
from tests.support.users import Call

TOML = """
[[ensembles]]
name = "t"
description = "Tests."
[[ensembles.invokers]]
name = "say_hello"
description = "Says hello."
effect = "none"
invocable = { function = "./lib/tool.py:say_hello" }
[[ensembles.invokers]]
name = "run_it"
description = "Runs it."
effect = "none"
[ensembles.invokers.invocable]
origin = "command"
argv = ["./run.sh", "{x}", { when = "y", argv = ["--also", "{y}"] }, "--", { each = "z" }]
environment = { MODE = "a b" }
confined = false
[ensembles.invokers.arguments]
type = "object"
required = ["x"]
properties.x = { type = "string", description = "It." }
properties.y = { type = "string", description = "Also." }
properties.z = { type = "array", items = { type = "string" } }
"""
CODE = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\ndef say_hello(context, arguments): ...\n"


@pytest.fixture
def folder(user: User) -> pathlib.Path:
    (user.workspace / "ripieno.toml").write_text(TOML)
    (user.workspace / "lib").mkdir()
    (user.workspace / "lib" / "tool.py").write_text(CODE)
    (user.workspace / "run.sh").write_text("#!/bin/sh\necho $1\n")
    (user.workspace / "run.sh").chmod(0o755)
    return user.workspace


def state(call: Call) -> str:
    trust: str = json.loads(call("doctor", "--format", "json").out)["project"]["trust"]
    return trust


@pytest.mark.parametrize("answer", [True, False])
def test_what_is_about_to_be_trusted_is_shown_before_the_question(
    answer: bool, call: Call, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        shown.append(capsys.readouterr().out)
        return answer

    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    done = call("trust")
    for line in (
        *(str(folder / name) for name in ("ripieno.toml", "lib/tool.py", "run.sh")),
        "t.say_hello: runs ./lib/tool.py:say_hello in this program",
        "t.run_it: runs MODE='a b' ./run.sh '{x}' [--also '{y}'] -- [{z} ...], with all your rights",
    ):
        assert line in shown[0]
    assert ("Trusted 3 files" in done.out) is answer
    assert (done.code, done.err) == ((0, "") if answer else (exit_codes.REFUSED, "Nothing was trusted.\n"))
    assert state(call) == ("trusted" if answer else "not trusted")


def test_without_a_terminal_trust_needs_an_option(call: Call, folder: pathlib.Path) -> None:
    done = call("trust")
    assert (done.code, "ripieno trust --yes" in done.err) == (exit_codes.INPUT, True)
    assert str(folder / "run.sh") in done.out
    assert state(call) == "not trusted"


def test_a_file_that_cannot_be_read_is_not_trusted(call: Call, user: User) -> None:
    (user.workspace / "ripieno.toml").write_text("[ensembles\n")
    done = call("trust", "--yes")
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    assert "Nothing is trusted, because this file cannot be read:" in done.err
    assert f"{user.workspace / 'ripieno.toml'}:1: error: Expected ']'" in done.err


def test_the_ensembles_that_a_folder_enables_are_listed(call: Call, user: User) -> None:
    file = user.workspace / "ripieno.toml"
    file.write_text('[ensembles]\nenabled = ["io", "mine"]\ninclude = ["test"]\n')
    listed = call("trust", "--yes").out
    assert "  io: enabled, bundled, with read_file, write_file, list_directory\n" in listed
    assert "  test: enabled, bundled, with " in listed or "  test: enabled, not declared here\n" in listed
    assert "  mine: enabled, not declared here\n" in listed
    file.write_text('[ensembles]\nprofile = "minimal"\n')
    assert ": enabled, bundled, with " in call("trust", "--yes").out
    file.write_text("[limits]\nturns = 3\n")
    assert "It declares and enables no tools." in call("trust", "--yes").out


def test_ensembles_of_the_user_are_not_called_bundled(call: Call, user: User) -> None:
    user.ensemble(
        "words",
        '[ensemble]\nname = "words"\ndescription = "Words."\n[[invokers]]\nname = "measure"\n'
        'description = "Counts."\ninvocable = { origin = "command", argv = ["wc"] }\n'
        'arguments = { type = "object", properties = {} }\n',
    )
    (user.workspace / "ripieno.toml").write_text('[ensembles]\ninclude = ["git"]\n')
    listed = call("trust", "--yes").out
    assert "  git: enabled, bundled, with " in listed
    # What the file does not name was enabled before.
    assert "words" not in listed
    assert "io:" not in listed
    (user.workspace / "ripieno.toml").write_text('[ensembles]\nenabled = ["words"]\n')
    assert "  words: enabled, yours, with measure\n" in call("trust", "--yes").out


HEAD = '[[ensembles]]\nname = "t"\ndescription = "Tests."\n'
TOOL = HEAD + (
    '[[ensembles.invokers]]\nname = "run_it"\ndescription = "Runs it."\neffect = "read"\n'
    '[ensembles.invokers.arguments]\ntype = "object"\nproperties = {}\n[ensembles.invokers.invocable]\n'
)
CONNECTION = HEAD + "[ensembles.connection]\n"
URL = "http://127.0.0.1:1/echo"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            TOOL
            + f'origin = "http"\nurl = "{URL}"\nheaders = {{ X = "{{env:ONE}}" }}\nquery = {{ y = "a{{env:TWO}}" }}',
            f"t.run_it: http {URL}, with your variables ONE, TWO",
        ),
        (
            TOOL + 'origin = "command"\nargv = ["curl"]\nnetwork = true\nenvironment = { X = "{env:ONE}" }',
            "t.run_it: runs X='{env:ONE}' curl, confined, with the network, with your variable ONE",
        ),
        (TOOL + 'origin = "command"\nargv = ["curl"]', "t.run_it: runs curl, confined"),
        (
            CONNECTION + 'origin = "mcp"\ncommand = ["server"]\nenvironment = { X = "env:ONE" }',
            "t: runs X=env:ONE server, with all your rights, with your variable ONE",
        ),
        (
            CONNECTION + f'origin = "mcp"\nurl = "{URL}"\nheaders = {{ X = "Bearer {{env:ONE}}" }}\n'
            '[ensembles.connection.oauth]\nclient_id = "c"\nissuer = "http://127.0.0.1:2"\n'
            'client_secret = "{env:TWO}"',
            f"t: mcp {URL}, with your variables ONE, TWO",
        ),
        (
            CONNECTION + 'origin = "python"\nfactory = "ripieno.toolset.network.grants:open_network"\n'
            '[ensembles.configuration.credentials."http://127.0.0.1:1"]\nX = "{env:ONE}"',
            "t: runs ripieno.toolset.network.grants:open_network in this program, with your variable ONE",
        ),
        # The settings are not valid, or the origin is not there (yet): what they name counts all the same.
        (
            TOOL + f'origin = "http"\nurl = "{URL}"\nheaderz = {{ X = "{{env:ONE}}" }}',
            f"t.run_it: http {URL}, with your variable ONE",
        ),
        (
            TOOL + f'origin = "pigeon"\nurl = "{URL}"\nnetwork = true\ndeep = [{{ x = ["{{env:ONE}}"] }}]',
            f"t.run_it: pigeon {URL}, with the network, with your variable ONE",
        ),
        (
            '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "{env:ONE}"',
            "provider house: http://127.0.0.1:1/v1, with your variable ONE",
        ),
    ],
)
def test_the_network_and_every_variable_are_shown(call: Call, user: User, text: str, line: str) -> None:
    (user.workspace / "ripieno.toml").write_text(text)
    assert f"\n  {line}\n" in call("trust").out


def test_a_tool_that_is_not_enabled_shows_its_variables(call: Call, user: User) -> None:
    text = (
        TOOL.replace('"read"', '"read"\nenabled = false')
        + f'url = "{URL}"\norigin = "http"\nquery = {{ x = "{{env:ONE}}" }}'
    )
    (user.workspace / "ripieno.toml").write_text(text)
    assert f"t.run_it: http {URL}, with your variable ONE\n" in call("trust").out


PLUGIN = """
from ripieno.ensembles.origin import NeededVariable, Origin
from ripieno.plugin import hookimpl
@hookimpl
def ripieno_origins():
    return {"pigeon": "pigeon_plugin:ORIGIN"}
class Pigeon(Origin):
    name = "pigeon"
    def check(self, descriptor):
        return ()
    def variables(self, descriptor):
        yield NeededVariable(name="PIGEON_HOME")
        for one in descriptor.invokers:
            yield NeededVariable(name=one.invocable.settings["token"], key=("token",), invoker=one)
ORIGIN = Pigeon()
"""


def test_an_origin_of_a_plugin_names_its_variables_as_it_does_otherwise(user: User, tmp_path: pathlib.Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(site, "pigeon-post", "pigeon_plugin", PLUGIN)
    user.configure('[plugins]\nallow = ["pigeon-post"]\n')
    (user.workspace / "ripieno.toml").write_text(TOOL + 'origin = "pigeon"\ntoken = "ONE"')
    listed = user.run("trust", PYTHONPATH=str(site)).stdout
    assert "  t: all its tools, with your variable PIGEON_HOME\n  t.run_it: pigeon, with your variable ONE\n" in listed


def test_the_printed_command_trusts_from_another_folder(
    call: Call, folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    left_out = call("tools", "--workspace", str(folder)).err
    assert left_out.endswith(f"run: ripieno trust {folder}\n")
    printed = call("trust", str(folder)).err.strip().rpartition("run: ")[2]
    assert printed == f"ripieno trust --yes {folder}"
    assert call(*printed.split()[1:]).code == 0
    assert call("tools", "--workspace", str(folder)).err == ""


def test_what_changes_during_the_question_is_not_trusted(
    call: Call, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.confirm", lambda *_, **__: (folder / "run.sh").write_text("#!/bin/sh\necho evil\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    done = call("trust")
    assert (done.code, "have changed since they were listed" in done.err) == (exit_codes.INPUT, True)
    assert state(call) == "not trusted"


def test_a_watched_folder_stays_trusted_unless_a_tool_or_git_may_have_changed_it(
    user: User, folder: pathlib.Path
) -> None:
    (folder / ".git").mkdir()
    script = folder / "run.sh"

    def trusted() -> bool:
        project = find_project(folder)
        assert project is not None
        return TrustStore(user.state).trusts(project)

    with Screen(user, "trust", "--watch") as screen:
        screen.wait_for("Trust them as they are now? [y/N]: ")
        screen.type("y\n")
        screen.wait_for("What you change there is trusted at once.")
        for number in range(2):
            replace(script, f"#!/bin/sh\necho {number}\n")
            screen.wait_for("Changed: run.sh\r\nTrusted.")
            assert trusted()
        replace(folder / "ripieno.toml", TOML.replace("./run.sh", "./other.sh"))
        screen.wait_for("Changed: ripieno.toml, run.sh\r\n  + t.run_it: runs MODE='a b' ./other.sh")
        screen.wait_for("Trusted.")
        # While git works, and while an assembly is open, a person decides.
        (folder / ".git" / "index.lock").touch()
        replace(folder / "lib" / "tool.py", CODE + "# 1\n")
        screen.wait_for("Trust it as it is now? [y/N]: ")
        assert not trusted()
        screen.type("y\n")
        screen.wait_for("Trusted.")
        assert trusted()
        (folder / ".git" / "index.lock").unlink()
        with marked(user.state):
            replace(folder / "lib" / "tool.py", CODE + "# 2\n")
            screen.wait_for("Trust it as it is now? [y/N]: ")
            screen.type("n\n")
            screen.wait_for("Not trusted.")
        assert not trusted()
        screen.type("\x03")
        screen.wait_for("is no longer watched")
        assert screen.end() == 0


def test_a_watched_folder_is_looked_at_soon_after_a_slow_answer(user: User, folder: pathlib.Path) -> None:
    with Screen(user, "trust", "--yes", "--watch") as screen:
        screen.wait_for("What you change there is trusted at once.")
        with marked(user.state):
            replace(folder / "run.sh", "#!/bin/sh\necho 1\n")
            screen.wait_for("Trust it as it is now? [y/N]: ")
        asked = time.monotonic()
        # What a person does before answering.
        assert user.run("check", "ripieno.toml").returncode == 0
        screen.type("y\n")
        screen.wait_for("Trusted.")
        answered = time.monotonic()
        replace(folder / "run.sh", "#!/bin/sh\necho 2\n")
        screen.wait_for("Changed: run.sh")
        # The pause depends on the time of a look, not of the answer: it was twenty times as long.
        assert time.monotonic() - answered < 10 * (answered - asked)


def replace(file: pathlib.Path, text: str) -> None:
    """Writes a file at once, as editors do."""
    new = file.with_name("new~")
    new.write_text(text)
    new.chmod(file.stat().st_mode)
    new.rename(file)


def test_a_check_imports_only_what_is_trusted(call: Call, folder: pathlib.Path) -> None:
    imported = folder / "lib" / "imported"
    for named in ("ripieno.toml", "."):
        done = call("check", named)
        assert f"Not imported: the functions of {folder / 'ripieno.toml'}, which is not trusted." in done.err
        assert json.loads(call("check", named, "--format", "json").out)["not_imported"] == [
            str(folder / "ripieno.toml")
        ]
    assert not imported.exists()
    assert call("check", "ripieno.toml", "--import").err == ""
    assert imported.exists()
    imported.unlink()
    assert call("trust", "--yes").code == 0
    assert call("check", "ripieno.toml").err == ""
    assert call("check", "ripieno.toml", "--no-import").err != ""


def test_the_users_own_files_are_imported(call: Call, user: User, folder: pathlib.Path) -> None:
    file = user.ensemble("t", TOML.replace("[[ensembles]]", "[ensemble]").replace("ensembles.invokers", "invokers"))
    (file.parent / "lib").mkdir()
    (file.parent / "lib" / "tool.py").write_text(CODE)
    call("check", str(file))
    assert (file.parent / "lib" / "imported").exists()
    assert not (folder / "lib" / "imported").exists()


def test_before_trust_a_check_says_what_a_start_would(call: Call, user: User) -> None:
    tool = TOOL.replace('"t"', '"io"').replace("run_it", "read_file") + 'origin = "command"\nargv = ["cat"]\n'
    (user.workspace / "ripieno.toml").write_text('ensembles.profile = "minimal"\n')
    (user.workspace / "ensembles").mkdir()
    mine = user.workspace / "ensembles" / "io.toml"
    mine.write_text(tool.replace("[[ensembles]]", "[ensemble]").replace("ensembles.invokers", "invokers"))
    clash = f"{mine}:5: error: io.read_file and file_read.read_file would both be offered as 'read_file'"
    before = call("check")
    assert (before.code, clash in before.out) == (exit_codes.INPUT, True)
    assert f"the ensemble 'io' ({mine}) would replace, once it is trusted, the bundled one" in before.out
    assert "no longer available" not in before.out
    assert call("tools").code == 0
    trusted = call("trust", "--yes").err
    assert clash in trusted
    assert "Commands in this folder cannot start before that is fixed." in trusted
    after = call("check").out
    assert clash in after
    assert "These tools are no longer available: list_directory. To have both" in after
    assert call("tools").code == exit_codes.INPUT
