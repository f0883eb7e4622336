"""Rules of the sources (size, docstrings, vendors' names, processes, deserialized objects), public names, and tests.

The import contracts in ``pyproject.toml`` have the rules of imports. Each rule here is a function from a module's text
to its findings, with examples that it must find.
"""

import ast
import functools
import importlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import ripieno
from ripieno import exceptions
from ripieno.lazy import modules

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "sources" / "ripieno"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "data")

Rule = Callable[[str], list[str]]

MOST_LINES = 400
VENDORS = re.compile(r"anthropic|openai|gemini|ollama|vllm|openrouter", re.IGNORECASE)

PROCESS_MODULES = {"subprocess", "pty", "multiprocessing", "posix", "_posixsubprocess"}
PROCESS_STARTERS = {
    *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("open_process", "run_process", "ProcessPoolExecutor"),
}
OS_STARTERS = {
    f"os.{name}"
    for name in (
        *("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"),
        *("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe"),
        *("spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe"),
    )
}
REVIVING_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
REVIVING_CALLS = {"eval", "exec", "__import__"}


@functools.lru_cache(maxsize=1)
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a module, for several rules."""
    return tuple(ast.walk(ast.parse(text)))


def imported(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of everything imported: modules, and names out of them as ``module.name``."""
    for node in nodes_of(text):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names)


def too_long(text: str) -> list[str]:
    count = len(text.splitlines())
    return [f"{count} lines"] if count > MOST_LINES else []


def no_first_line(text: str) -> list[str]:
    return (
        []
        if re.match(r'r?"""\S', text) and isinstance(tree := nodes_of(text)[0], ast.Module) and ast.get_docstring(tree)
        else ["1: not a docstring"]
    )


def type_checking(text: str) -> list[str]:
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if "TYPE_CHECKING" in line]


def vendors(text: str) -> list[str]:
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if VENDORS.search(line)]


def processes(text: str) -> list[str]:
    """Every way to start a process: modules for it, and functions of other modules."""
    found = [
        f"{line}: import of {name}"
        for line, name in imported(text)
        if name.partition(".")[0] in PROCESS_MODULES
        or name in OS_STARTERS
        or name.rpartition(".")[2] in PROCESS_STARTERS
    ]
    found += [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in nodes_of(text)
        if isinstance(node, ast.Attribute)
        and (
            node.attr in PROCESS_STARTERS
            or (isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in OS_STARTERS)
        )
    ]
    return found


def shells(text: str) -> list[str]:
    return [
        f"{node.value.lineno}: shell={ast.unparse(node.value)}"
        for node in nodes_of(text)
        if isinstance(node, ast.keyword) and node.arg == "shell" and ast.unparse(node.value) != "False"
    ]


def revived(text: str) -> list[str]:
    """Ways to make code or objects from data."""
    found = [f"{line}: import of {name}" for line, name in imported(text) if name.partition(".")[0] in REVIVING_MODULES]
    found += [
        f"{node.lineno}: {node.func.id}()"
        for node in nodes_of(text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REVIVING_CALLS
    ]
    return found


RULES: tuple[Rule, ...] = (too_long, no_first_line, type_checking, vendors, processes, shells, revived)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (too_long, "\n" * (MOST_LINES + 1)),
        (no_first_line, ""),
        (no_first_line, "import os\n"),
        (no_first_line, '# A comment.\n"""Then the docstring."""\n'),
        (no_first_line, '"""\nThe first line says nothing.\n"""\n'),
        (no_first_line, '"""An expression""" + ""\n'),
        (type_checking, "if typing.TYPE_CHECKING:\n    import os\n"),
        (vendors, 'if "OpenAI" in model: ...\n'),
        (vendors, "# as Ollama does\n"),
        (processes, "import subprocess\n"),
        (processes, "from subprocess import run\n"),
        (processes, "def late():\n    import multiprocessing.pool\n"),
        (processes, "from asyncio import create_subprocess_exec\n"),
        (processes, "from concurrent.futures import ProcessPoolExecutor as Pool\n"),
        (processes, "asyncio.create_subprocess_shell('ls')\n"),
        (processes, "start = os.posix_spawn\n"),
        (processes, "from os import system\n"),
        (shells, "run('ls', shell=True)\n"),
        (shells, "run('ls', shell=chosen)\n"),
        (revived, "import pickle\n"),
        (revived, "from marshal import loads\n"),
        (revived, "eval('1')\n"),
        (revived, "exec(text)\n"),
    ],
)
def test_rules_find_what_they_are_for(rule: Rule, text: str) -> None:
    assert rule(text)


def test_rules_pass_what_is_allowed() -> None:
    text = (
        '"""A module."""\nimport re\nre.compile("x")\nrun(shell=False)\n'
        'spawner.start(["ls"])\nplatform.system()\nloader.exec_module(it)\n'
    )
    assert {rule.__name__: rule(text) for rule in RULES} == {rule.__name__: [] for rule in RULES}


def within(path: pathlib.Path, places: tuple[str, ...]) -> bool:
    """Whether a module is one of these, or in one of these packages."""
    module = path.relative_to(PACKAGE).with_suffix("")
    return any(module.is_relative_to(place) for place in places)


@pytest.fixture(scope="module")
def findings() -> dict[Rule, dict[pathlib.Path, list[str]]]:
    """The findings of each rule in each module."""
    assert MODULES
    found: dict[Rule, dict[pathlib.Path, list[str]]] = {rule: {} for rule in RULES}
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for rule in RULES:
            if lines := rule(text):
                found[rule][path] = lines
    return found


@pytest.mark.parametrize(
    ("rule", "exempt"),
    [
        pytest.param(too_long, (), id="no module is over 400 lines"),
        pytest.param(no_first_line, (), id="the first line of a module says what it is for"),
        pytest.param(type_checking, (), id="annotations are real imports"),
        pytest.param(
            vendors,
            ("models/protocols", "models/transport", "assembly/builtins"),
            id="vendors are named where wire formats are",
        ),
        pytest.param(
            processes,
            # The editor is the person's own, and no tool chooses it.
            ("sandbox/zygote", "sandbox/supervision", "servers/http/workers", "cli/common/editor"),
            id="four places start processes",
        ),
        pytest.param(shells, (), id="no shell is asked for"),
        pytest.param(revived, (), id="data never becomes code or objects"),
    ],
)
def test_house(rule: Rule, exempt: tuple[str, ...], findings: dict[Rule, dict[pathlib.Path, list[str]]]) -> None:
    assert {path: lines for path, lines in findings[rule].items() if not within(path, exempt)} == {}


# The public names: the same for programs and for type checkers, and cheap to import.

HEAVY = (
    *("anthropic", "click", "httpx2", "jsonschema", "jsonschema_rs", "mcp", "openai", "pydantic", "rich", "starlette"),
    "uvicorn",
)


#: The packages whose names are imported at their first use.
STUBBED = ("", ".approvals", ".assembly", ".models", ".plugin")


@pytest.mark.parametrize("package", [f"ripieno{one}" for one in STUBBED])
def test_the_stub_names_what_the_module_gives(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(pathlib.Path(module.__file__ or "").with_suffix(".pyi").read_text())
    homes = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {*homes, *(["__version__"] if module is ripieno else [])} == set(module.__all__)
    for name, home in homes.items():
        assert getattr(module, name) is getattr(importlib.import_module(home or ""), name)


def test_every_stub_is_compared_with_its_module() -> None:
    stubs = [path.relative_to(PACKAGE).parent.as_posix() for path in PACKAGE.rglob("__init__.pyi")]
    assert sorted(stubs) == [one.removeprefix(".") or "." for one in STUBBED]
    assert dir(ripieno) == sorted(ripieno.__all__)


def test_the_stub_of_lazy_modules_imports_each_of_them() -> None:
    tree = ast.parse((PACKAGE / "lazy" / "modules.pyi").read_text())
    names = [alias.asname for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    assert names == [name for name, one in vars(modules).items() if isinstance(one, modules.LazyModule)]
    for name in names:
        assert getattr(modules, name or "").__all__ is importlib.import_module(name or "").__all__


def test_a_name_that_is_none_says_so() -> None:
    assert not hasattr(ripieno, "asemble")
    assert ripieno.__version__.count(".") == 2


def test_the_whole_face_imports_nothing_heavy() -> None:
    touch = "import ripieno, ripieno.ensembles, sys; [getattr(ripieno, name) for name in ripieno.__all__]"
    code = f"{touch}; print([one for one in {HEAVY} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The rules of ``tests/README.rst`` that the text of tests can show.

LEFT_OUT = {"skip", "skipif", "xfail", "importorskip", "SkipTest", "skipIf", "skipUnless", "expectedFailure"}


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """The attributes that a module uses and the names that it imports, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_none_is_skipped_or_expected_to_fail() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert len(files) > 100
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files
        if file != ROOT / "tests" / "skips.py"
        and any(name in (text := file.read_text(encoding="utf-8")) for name in LEFT_OUT)
        for line, name in names_in(text)
        if name in LEFT_OUT
    ]
    assert found == []


def test_a_skip_would_be_seen() -> None:
    text = (
        "from pytest import xfail\n@pytest.mark.skipif(True, reason='x')\ndef test() -> None:\n    pytest.skip('y')\n"
    )
    assert {name for _, name in names_in(text)} & LEFT_OUT == {"skip", "skipif", "xfail"}


def test_the_tree_of_exceptions_has_each_of_them() -> None:
    listed = re.findall(r"[├└]── (\w+)", exceptions.__doc__ or "")
    classes = [one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, BaseException)]
    assert sorted(listed) == sorted(one.__name__ for one in classes if one is not exceptions.RipienoError)
