"""The page about long conversations: its tables can be read, and its program prints what the page shows."""

import subprocess
import sys
import tomllib

from ripieno.descriptors.configuration import read_configuration
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.history import HISTORY
from tests.documentation.code_blocks import DOCUMENTATION, texts

PAGE = "tutorials/long-conversations"


def test_the_examples_are_read_and_run() -> None:
    server, history, notes, program, printed = texts(PAGE, "toml", "toml", "toml", "python", "")
    provided, problems = read_configuration(tomllib.loads(server))
    assert not problems
    assert provided is not None
    assert provided.providers["cellar"]["capabilities"]["context"] == 32768
    said, problems = read_configuration(tomllib.loads(history))
    assert not problems
    assert said is not None
    assert said.history.strategy == ("drop-oldest",)
    assert said.agents["reviewer"].history.strategy == ("sliding-window", "summarize")
    assert said.agents["reviewer"].history.tokens == 50_000
    ensemble, problems = read_ensemble(tomllib.loads(notes))
    assert not problems
    assert ensemble is not None
    assert ensemble.tokens == 20_000
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == printed


def test_every_key_is_told_of() -> None:
    page = (DOCUMENTATION / f"{PAGE}.rst").read_text(encoding="utf-8")
    for name in HISTORY.known:
        assert f"\n``{name}``\n" in page
