"""Python functions as invocables: found, imported late, called in their own way."""

import dataclasses
import pathlib
import sys
import threading
from collections.abc import Iterator

import pytest

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.ensembles import Ensemble, Surroundings
from ripieno.ensembles.opener import opener
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, InputError
from tests.support.toml_ensembles import ORIGINS, call, check, make_ensemble, surround

TOOLS = """
import threading

IMPORTED = threading.current_thread().name

async def later(context, arguments):
    return {"later": arguments, "connection": context.connection, "configuration": dict(context.configuration)}

def now(context, arguments):
    return threading.current_thread() is threading.main_thread()

def awaitable(context, arguments):
    return later(context, arguments)

class Group:
    @staticmethod
    def inner(context, arguments):
        return IMPORTED

VALUE = 3
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A folder with a module, which can be imported too, and is not imported yet."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "conservatory").mkdir()
    (tmp_path / "conservatory" / "__init__.py").write_text("")
    (tmp_path / "conservatory" / "strings.py").write_text(TOOLS)
    (tmp_path / "conservatory" / "broken.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("conservatory", "ripieno_file_")):
            del sys.modules[name]


@pytest.fixture
def surroundings(tmp_path: pathlib.Path) -> Surroundings:
    return surround(tmp_path)


def ensemble_text(*tools: str, header: str = "", more: str = "") -> str:
    text = f'[ensemble]\nname = "it"\n{header}\n{more}\n'
    for tool in tools:
        name, _, function = tool.partition("=")
        text += f'[[invokers]]\nname = "{name}"\ndescription = "A tool"\n'
        text += 'arguments = { type = "object", properties = { a = {} } }\n'
        if function:
            text += f'invocable = {{ function = "{function}" }}\n'
    return text


async def test_functions_of_modules_and_files(folder: pathlib.Path, surroundings: Surroundings) -> None:
    text = ensemble_text(
        "later",
        "now=conservatory.strings:now",
        "waited=./tools.py:awaitable",
        "inner=./conservatory/strings.py:Group.inner",
        header='module = "conservatory.strings"',
        more="[configuration]\nroot = 3",
    )
    before = set(sys.modules)
    assert check(text, folder) == []
    async with make_ensemble(text, surroundings, folder) as ensemble:
        assert not any(name.startswith(("conservatory", "ripieno_file_")) for name in set(sys.modules) - before)
        answer = {"later": {"a": 1}, "connection": None, "configuration": {"root": 3}}
        assert await call(ensemble, "later", a=1) == answer
        assert await call(ensemble, "now") is False
        assert await call(ensemble, "waited", a=1) == answer
        # The module was imported in the call, off the event loop.
        assert await call(ensemble, "inner") != threading.main_thread().name


async def test_a_file_is_imported_once(folder: pathlib.Path, surroundings: Surroundings) -> None:
    (folder / "counted.py").write_text(
        "import pathlib\n"
        "with (pathlib.Path(__file__).parent / 'count').open('a') as file:\n    file.write('.')\n"
        "def one(context, arguments):\n    return 1\n"
    )
    text = ensemble_text("one=./counted.py:one", "two=./counted.py:one")
    async with (
        make_ensemble(text, surroundings, folder) as ensemble,
        make_ensemble(text, surroundings, folder) as other,
    ):
        for tool in ("one", "two"):
            assert await call(ensemble, tool) == await call(other, tool) == 1
    assert (folder / "count").read_text() == "."


async def test_a_file_that_fails_is_imported_again_from_the_same_bytes(
    folder: pathlib.Path, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "flaky.py").write_text(
        "import os\nif 'NOT_YET' in os.environ:\n    raise OSError('not yet')\n"
        "def one(context, arguments):\n    return 'here'\n"
    )
    monkeypatch.setenv("NOT_YET", "1")
    async with make_ensemble(ensemble_text("one=./flaky.py:one"), surroundings, folder) as ensemble:
        with pytest.raises(OSError, match="not yet"):
            await call(ensemble, "one")
        monkeypatch.delenv("NOT_YET")
        (folder / "flaky.py").write_text("def one(context, arguments):\n    return 'changed'\n")
        assert await call(ensemble, "one") == "here"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("conservatory.strings:latr", "conservatory.strings has no 'latr'. Did you mean 'later'?"),
        ("conservatory.strings:VALUE", "conservatory.strings:VALUE is not a function, but int."),
        ("conservatory.flutes:later", "There is no Python module 'conservatory.flutes'."),
        ("orchestra:later", "There is no Python module 'orchestra'."),
        ("./absent.py:later", "There is no Python file "),
        ("./link/evil.py:later", "is outside of the folder"),
    ],
)
async def test_a_function_that_is_not_there(
    function: str,
    message: str,
    folder: pathlib.Path,
    surroundings: Surroundings,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "evil.py").write_text("def later(context, arguments): ...\n")
    (folder / "link").symlink_to(outside)
    # A file is read when the ensemble opens, a module in the first call.
    ensemble = make_ensemble(ensemble_text(f"one={function}"), surroundings, folder)
    if function.startswith("./"):
        with pytest.raises(ConfigurationInvalidity, match=message):
            await ensemble.connect()
        return
    async with ensemble:
        with pytest.raises(InputError) as raised:
            await call(ensemble, "one")
    assert message in str(raised.value)


async def test_a_module_that_lacks_something_itself(folder: pathlib.Path, surroundings: Surroundings) -> None:
    async with make_ensemble(ensemble_text("one=conservatory.broken:one"), surroundings, folder) as ensemble:
        with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
            await call(ensemble, "one")


@pytest.mark.parametrize(
    ("invocable", "key", "message"),
    [
        ('{ functoin = "a:b" }', "invokers[0].invocable.functoin", "has no key functoin"),
        ('{ function = "a" }', "invokers[0].invocable.function", 'a function such as "package.module:name"'),
        ('{ function = "/a.py:b" }', "invokers[0].invocable.function", "a function such as"),
        ('{ function = "./../a.py:b" }', "invokers[0].invocable.function", "a function such as"),
        ('{ function = "./x/../../a.py:b" }', "invokers[0].invocable.function", "a function such as"),
        ('{ function = "./a.py:b" }', "invokers[0].invocable.function", "needs a folder"),
    ],
)
def test_settings_that_are_wrong(invocable: str, key: str, message: str) -> None:
    text = f'[ensemble]\nname = "it"\n[[invokers]]\nname = "a"\ndescription = "A"\ninvocable = {invocable}'
    text = text.replace("invocable = {", 'invocable = { origin = "python",')
    text = text if "function" in text else text.replace("[ensemble]", '[ensemble]\nmodule = "m"')
    (problem,) = check(text)
    assert problem.key == key
    assert message in problem.message


async def test_a_connection_that_a_function_opens(folder: pathlib.Path, surroundings: Surroundings) -> None:
    (folder / "database.py").write_text(
        "import contextlib\n"
        "CLOSED = []\n"
        "@contextlib.asynccontextmanager\n"
        "async def open(configuration, surroundings):\n"
        "    yield f\"{configuration['name']} at {surroundings.workspace}\"\n"
        "    CLOSED.append(1)\n"
        "def plain(configuration, surroundings):\n    return 3\n"
        "def closed(context, arguments):\n    return len(CLOSED)\n"
    )
    connection = '[connection]\norigin = "python"\nfactory = "./database.py:open"\n[configuration]\nname = "db"'
    text = ensemble_text("later=./tools.py:later", "closed=./database.py:closed", more=connection)
    assert check(text, folder) == []
    ensemble = make_ensemble(text, surroundings, folder)
    async with ensemble:
        assert (await call(ensemble, "later"))["connection"] == f"db at {folder}"
        assert await call(ensemble, "closed") == 0
        assert ensemble.connection == f"db at {folder}"
    await ensemble.connect()
    assert await call(ensemble, "closed") == 1
    await ensemble.disconnect()
    for name, message in {"plain": "int instead of an async context manager", "missing": "has no 'missing'"}.items():
        broken = make_ensemble(text.replace(":open", f":{name}"), surroundings, folder)
        with pytest.raises(ConnectionFailure, match=message):
            await broken.connect()


async def test_the_function_of_the_name_in_the_module_of_the_ensemble(
    folder: pathlib.Path, surroundings: Surroundings
) -> None:
    invokers = (InvokerDescriptor(name="now"),)
    descriptor = EnsembleDescriptor(name="it", module="./tools.py", invokers=invokers, folder=str(folder))
    async with Ensemble("it", opener=opener(descriptor, ORIGINS, surroundings)) as ensemble:
        assert await call(ensemble, "now") is False
    nowhere = dataclasses.replace(descriptor, module=None)
    (problem,) = ORIGINS["python"].check(nowhere)
    assert problem.message == "the function of 'now' is not given"


def test_a_connection_without_a_factory() -> None:
    (problem,) = check(ensemble_text("a=m:a", more='[connection]\norigin = "python"'))
    assert (problem.key, problem.message) == ("connection", "[connection] lacks factory")


async def test_whoever_did_not_check_learns_it_when_opening(surroundings: Surroundings) -> None:
    with pytest.raises(ConfigurationInvalidity, match="needs a folder"):
        await make_ensemble(ensemble_text("a=./m.py:a"), surroundings).connect()
