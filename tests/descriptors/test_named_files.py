"""The code that commands and variables of descriptors name."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import pytest

from ripieno.descriptors.ensembles import EnsembleDescriptor
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.descriptors.named_files import code_named


def ensemble(
    folder: pathlib.Path, argv: Sequence[str], environment: Mapping[str, str] | None = None
) -> EnsembleDescriptor:
    file = folder / "elsewhere" / "t.toml"
    file.parent.mkdir()
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in (environment or {}).items())
    file.write_text(
        '[ensemble]\nname = "t"\ndescription = "Runs."\n[[invokers]]\nname = "t"\ndescription = "Runs."\n'
        'arguments = { type = "object" }\n[invokers.invocable]\norigin = "command"\n'
        f"argv = {json.dumps(list(argv))}\nenvironment = {{ {variables} }}\n"
    )
    return load_ensembles([Layer(name="user", paths=(file,))]).ensembles["t"]


def is_found(folder: pathlib.Path, descriptor: EnsembleDescriptor, file: str) -> bool:
    return str(folder / file) in code_named(descriptor, folder)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("bash -o errexit -o pipefail run", "run"),
        ("python3 -W ignore -X dev run", "run"),
        ("node -r ./one -r ./two run", "run"),
        ("node -r ./one -r ./two run", "two"),
        ("java -cp a.jar:lib/b Main", "lib/b"),
        ("java -javaagent:lib/agent -jar a.jar", "lib/agent"),
        ("java @options", "options"),
        ("make -frules all", "rules"),
        ("awk -f program data", "program"),
        ("emacs --script run", "run"),
        ("ansible-playbook play", "play"),
        ("/lib64/ld-linux-x86-64.so.2 ./run", "run"),
        ("python3 -m package.part", "package/__init__.py"),
        ("python3 -m package.part", "package/part/__init__.py"),
        ("python3 -m package", "package/__init__.py"),
    ],
)
def test_code_is_found_by_its_place_even_if_it_is_missing(tmp_path: pathlib.Path, command: str, file: str) -> None:
    assert is_found(tmp_path, ensemble(tmp_path, command.split()), file)


@pytest.mark.parametrize(
    "suffix",
    [
        "go",
        "hs",
        "ml",
        "swift",
        "dart",
        "exs",
        "el",
        "exp",
        "lisp",
        "nim",
        "zig",
        "cr",
        "clj",
        "ipynb",
        "cmake",
        "gradle",
        "rs",
        "c",
    ],
)
def test_files_with_suffixes_of_languages_are_code(tmp_path: pathlib.Path, suffix: str) -> None:
    (tmp_path / f"main.{suffix}").touch()
    assert is_found(tmp_path, ensemble(tmp_path, ["anything", "run", "x", f"main.{suffix}"]), f"main.{suffix}")


@pytest.mark.parametrize(
    ("name", "value", "file"),
    [
        ("BASH_ENV", "./before", "before"),
        ("LD_PRELOAD", "./lib/x.so ./lib/y.so", "lib/y.so"),
        ("NODE_OPTIONS", "--require ./before.js", "before.js"),
        ("JAVA_TOOL_OPTIONS", "-javaagent:./agent", "agent"),
        ("CLASSPATH", "a.jar:b.jar", "b.jar"),
        ("GIT_SSH_COMMAND", "./connect -v", "connect"),
        ("PYTHONPATH", "one:two", "two/sitecustomize.py"),
    ],
)
def test_variables_that_load_code_name_it(tmp_path: pathlib.Path, name: str, value: str, file: str) -> None:
    assert is_found(tmp_path, ensemble(tmp_path, ["true"], {name: value}), file)


@pytest.mark.parametrize(
    ("command", "file"),
    [("go build -o out main.go", "out"), ("sh run one data", "data"), ("tool --database data.db", "data.db")],
)
def test_data_and_results_are_no_code(tmp_path: pathlib.Path, command: str, file: str) -> None:
    assert not is_found(tmp_path, ensemble(tmp_path, command.split(), {"OUTPUT": file}), file)


def test_the_folder_above_is_that_of_the_target_of_a_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib" / "inner").mkdir(parents=True)
    (tmp_path / "lib" / "run").write_text("echo\n")
    (tmp_path / "link").symlink_to(tmp_path / "lib" / "inner")
    assert is_found(tmp_path, ensemble(tmp_path, ["sh", "link/../run"]), "lib/run")
