"""The public names: the same for programs and for type checkers, and cheap to import."""

import ast
import pathlib
import subprocess
import sys

import ripieno

FOLDER = pathlib.Path(ripieno.__file__).parent
HEAVY = (
    *("anthropic", "click", "httpx2", "jsonschema", "jsonschema_rs", "mcp", "openai", "pydantic", "rich", "starlette"),
    "uvicorn",
)


def test_the_stub_names_what_the_module_gives() -> None:
    tree = ast.parse((FOLDER / "__init__.pyi").read_text())
    homes = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {*homes, "__version__"} == set(ripieno.__all__)
    assert dir(ripieno) == sorted(ripieno.__all__)
    for name, home in homes.items():
        # A package may export what one of its modules defines.
        assert f"{getattr(ripieno, name).__module__}.".startswith(f"{home}."), name


def test_a_name_that_is_none_says_so() -> None:
    assert not hasattr(ripieno, "asemble")
    assert ripieno.__version__.count(".") == 2


def test_the_whole_face_imports_nothing_heavy() -> None:
    touch = "import ripieno, ripieno.ensembles, sys; [getattr(ripieno, name) for name in ripieno.__all__]"
    code = f"{touch}; print([one for one in {HEAVY} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
