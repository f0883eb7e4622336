"""The code that commands and variables of descriptors name."""

import json
import pathlib
import shlex
from collections.abc import Mapping, Sequence

import pytest

from ripieno.descriptors.ensembles import EnsembleDescriptor
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.descriptors.named_files import code_named


def ensemble(
    folder: pathlib.Path, argv: Sequence[str], environment: Mapping[str, str] | None = None
) -> EnsembleDescriptor:
    # Braces are for arguments.
    words = json.dumps([one.replace("{", "{{").replace("}", "}}") for one in argv])
    file = folder / "elsewhere" / "t.toml"
    file.parent.mkdir()
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in (environment or {}).items())
    file.write_text(
        '[ensemble]\nname = "t"\ndescription = "Runs."\n[[invokers]]\nname = "t"\ndescription = "Runs."\n'
        'arguments = { type = "object" }\n[invokers.invocable]\norigin = "command"\n'
        f"argv = {words}\nenvironment = {{ {variables} }}\n"
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
        ("perl -Mwhile run", "run"),
        ("ruby -rone run", "run"),
        ("timeout 5 run data", "run"),
        ("sh -c 'if true; then X=1 sh run; fi'", "run"),
        ("bash -euc '. ./run && run2'", "run2"),
        ("bash -euc '. ./run && run2'", "run"),
        ("env sh -c 'cat data | sh -e run'", "run"),
        ("sh -c 'sed -n -fone data > two'", "one"),
        ("sh -c 'awk -F, -fone data'", "one"),
        ("find . -exec sh -c 'sh run' {} ;", "run"),
    ],
)
def test_code_is_found_by_its_place_even_if_it_is_missing(tmp_path: pathlib.Path, command: str, file: str) -> None:
    assert is_found(tmp_path, ensemble(tmp_path, shlex.split(command)), file)


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
    [
        ("go build -o out main.go", "out"),
        ("sh run one data", "data"),
        ("sh -e run.sh data.txt", "data.txt"),
        ("python3 -B run.py data.txt", "data.txt"),
        ("python3 -m json.tool data.txt", "data.txt"),
        ("tool --database data.db", "data.db"),
        ("sh -c 'nl diary.txt | tail -2'", "diary.txt"),
        ("bash -lc 'cat diary.txt'", "diary.txt"),
        ("sh -c 'cat < diary.txt >> nap.txt'", "diary.txt"),
        ("sh -c 'cat < diary.txt >> nap.txt'", "nap.txt"),
        ("sh -c 'if [ -e diary.txt ]; then wc -l \"diary.txt\"; fi'", "diary.txt"),
        ("sh -c 'cat \"$1\"' sh diary.txt", "diary.txt"),
        ("python3 -c 'print(open(\"diary.txt\").read())'", "diary.txt"),
        ("perl -ne print diary.txt", "diary.txt"),
        ("awk '{print $1}' data.csv", "data.csv"),
        ("sed -n 5p data.txt", "data.txt"),
        ("awk -f one data.csv", "data.csv"),
    ],
)
def test_data_and_results_are_no_code(tmp_path: pathlib.Path, command: str, file: str) -> None:
    (tmp_path / file).write_text("data\n")
    assert not is_found(tmp_path, ensemble(tmp_path, shlex.split(command), {"OUTPUT": file}), file)


def test_the_folder_above_is_that_of_the_target_of_a_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib" / "inner").mkdir(parents=True)
    (tmp_path / "lib" / "run").write_text("echo\n")
    (tmp_path / "link").symlink_to(tmp_path / "lib" / "inner")
    assert is_found(tmp_path, ensemble(tmp_path, ["sh", "link/../run"]), "lib/run")
