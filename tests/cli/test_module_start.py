"""``python -m ripieno`` imports nothing from the current folder, whatever its files are called."""

import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

#: What Python's own ``-m`` imports before this package is reached; only ``-P`` keeps these from the current folder.
_RUNPY = "import runpy, sys; print(*{name.partition('.')[0] for name in sys.modules})"


@pytest.mark.parametrize("flags", [(), ("-P",)])
def test_files_of_the_current_folder_are_not_imported(
    flags: tuple[str, ...], tmp_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = set() if flags else set(subprocess.check_output([sys.executable, "-I", "-c", _RUNPY], text=True).split())
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), "sitecustomize"} - before
    for name in names - {"ripieno"}:
        planted = tmp_path / f"{name}.py"
        if name.isidentifier():
            planted.write_text(f"open('PLANTED-{name}', 'w').close(); raise ImportError('planted')")
    command = [sys.executable, *flags, "-m", "ripieno", "tools"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path_factory.mktemp("home"))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert [path.name for path in tmp_path.glob("PLANTED-*")] == []
    assert (done.returncode, done.stderr) == (0, "")
    assert "io.read_file" in done.stdout
