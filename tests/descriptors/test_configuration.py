"""The descriptor of the configuration, of one file and of several."""

import tomllib
from typing import Any

import pytest

from ripieno.canisters import Controls
from ripieno.canisters.controls import Limits, Rules
from ripieno.descriptors import ConfigurationDescriptor, HistoryDescriptor
from ripieno.descriptors.configuration import combine, read_parts
from ripieno.descriptors.reader.problems import Source
from ripieno.descriptors.sandbox import SandboxDescriptor, tighten
from ripieno.exceptions import Problem
from tests.descriptors.descriptor_examples import CONFIGURATION, READ_FILE, files, read_configuration


def read(text: str, **keys: Any) -> tuple[ConfigurationDescriptor | None, tuple[Problem, ...]]:
    return read_configuration(tomllib.loads(text), Source(file="c.toml", text=text), **keys)


def good(text: str, **keys: Any) -> ConfigurationDescriptor:
    descriptor, problems = read(text, **keys)
    assert problems == ()
    assert descriptor is not None
    return descriptor


def test_every_key() -> None:
    configuration = good(CONFIGURATION, folder="/home/me/project")
    assert configuration.paths == ("/home/me/project/ensembles", "/srv/ensembles")
    assert configuration.enabled == ("io", "git")
    assert configuration.profile is None
    assert configuration.plugins == ("ripieno-weather",)
    house = {"base_url": "http://localhost:9090/v1", "capabilities": {"strict": False}}
    assert configuration.providers == {"house": house}
    assert configuration.model == "house/small-1"
    assert configuration.controls == Controls(temperature=0.2)
    reader = configuration.agents["reader"]
    assert (reader.name, reader.model, reader.tools) == ("reader", "house/small-2", ("io.read_file", "git.*"))
    assert reader.controls == Controls(temperature=0)
    assert reader.limits == Limits(turns=5, output=32 * 1024)
    assert configuration.limits == Limits(turns=50, output=32 * 1024)
    assert configuration.confirmation == Rules(approve=("git.commit",), deny=("shell",))
    assert configuration.environment == ("HOUSE_KEY",)
    assert configuration.workspace == "/home/me/project/work"
    assert configuration.sandbox == SandboxDescriptor(
        level="required",
        tier=1,
        provider="containers",
        readable=("~/.cargo", "/home/me/project/shared"),
        writable=("/home/me/project/cache",),
        network=False,
    )
    hash(configuration)


def test_nothing_is_the_defaults() -> None:
    assert good("") == ConfigurationDescriptor() == combine(())
    assert ConfigurationDescriptor().enabled is None
    assert good("[ensembles]\nenabled = []").enabled == ()
    assert good("[environment]").environment is None
    assert good("[environment]\nallow = []").environment == ()


@pytest.mark.parametrize(
    "text",
    [
        '[[ensembles]]\nname = "x"\nmodule = "m"\n[[ensembles.invokers]]\nsource = "read_file.toml"\n',
        '[[ensembles]]\ninvokers = [{ source = "read_file.toml" }]\n[ensembles.ensemble]\nname = "x"\nmodule = "m"\n',
    ],
)
def test_inline_ensembles(text: str) -> None:
    configuration = good(text, read=files(read_file__toml=READ_FILE), folder="/f", layer="caller")
    (ensemble,) = configuration.inline
    assert (ensemble.name, ensemble.folder, ensemble.layer, ensemble.file) == ("x", "/f", "caller", "c.toml")
    assert ensemble.invokers[0].invocable.settings == {"function": "m:read_file"}


def test_problems_of_inline_ensembles() -> None:
    text = '[[ensembles]]\nname = "x"\nmodul = "m"\n[[ensembles.invokers]]\nname = "a"\n[[ensembles]]\nname = 3\n'
    descriptor, problems = read(text)
    assert descriptor is None
    assert [(problem.line, problem.message) for problem in problems] == [
        (3, "an inline ensemble has no key modul"),
        (4, "[[invokers]] lacks description"),
        (7, "name must be a name of lower-case letters, digits, _ and -, beginning with a letter, not the number 3"),
    ]
    double = '[[ensembles]]\nname = "x"\ninvokers = []\n' * 2
    assert [problem.message for problem in read(double)[1]] == ["there are two ensembles named 'x'"]
    number, name = (problem.message for problem in read('ensembles = [3, "Io"]')[1])
    assert number == "ensembles[0] must be a table, not the number 3"
    assert name.startswith("ensembles[1] must be a name of lower-case letters")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("[limits]", "[limit]", 26, "the configuration has no key limit"),
        ("turns = 50", "turn = 50", 27, "[limits] has no key turn"),
        ('"house/small-1"', '"small-1"', 16, "default must be a provider and a model"),
        ('["git.commit"]', '["git commit"]', 31, "approve[0] must be a pattern"),
        ("temperature = 0.2", "temperature = 3", 17, "temperature must be a number from 0 to 2"),
        ('["HOUSE_KEY"]', '["HOUSE KEY"]', 35, "allow[0] must be the name of a variable"),
        ("{ temperature = 0 }", "{ temprature = 0 }", 22, "controls has no key temprature"),
        ("tier = 1", "tier = 3", 42, "tier must be a whole number from 1 to 2"),
        ('"containers"', '"A B"', 43, "provider must be the name of a plugin's sandbox"),
        ('["ripieno-weather"]', '"ripieno-weather"', 7, "allow must be a list of names of distributions"),
    ],
)
def test_problems(old: str, new: str, line: int, message: str) -> None:
    descriptor, problems = read(CONFIGURATION.replace(old, new))
    assert descriptor is None
    (problem,) = problems
    assert message in problem.message
    assert problem.line == line


def test_overrides_of_tools_belong_in_the_file_of_their_ensemble() -> None:
    _, (problem,) = read_parts({"overrides": {"read_file": {"enabled": False}}})
    assert problem.hint == "overrides belongs in the file of the ensemble whose tools it changes."


def test_several_files_are_one() -> None:
    inner = """
    ensembles = [{ name = "x", invokers = [] }]
    [model]
    default = "house/small-1"
    temperature = 0.5
    [limits]
    turns = 5
    calls = 7
    [confirmation]
    approve = ["a.*"]
    deny = ["b.*"]
    [agents.one]
    controls = { top_p = 0.5 }
    [providers.house.headers]
    A = "1"
    """
    outer = """
    [ensembles]
    enabled = ["x"]
    [model]
    temperature = 1
    [limits]
    turns = 6
    [confirmation]
    approve = []
    [agents.one]
    limits = { calls = 8 }
    [agents.two]
    [providers.house.headers]
    B = "2"
    """
    parts = [read_parts(tomllib.loads(text)) for text in (inner, outer)]
    assert [problems for _, problems in parts] == [(), ()]
    whole = combine([part for part, _ in parts])
    assert [one.name for one in whole.inline] == ["x"]
    assert whole.enabled == ("x",)
    assert whole.model == "house/small-1"
    assert whole.controls == Controls(temperature=1)
    assert whole.limits == Limits(turns=6, calls=7)
    assert whole.confirmation == Rules(approve=(), deny=("b.*",))
    assert set(whole.agents) == {"one", "two"}
    assert whole.agents["one"].controls == Controls(temperature=1, top_p=0.5)
    assert whole.agents["one"].limits == Limits(turns=6, calls=8)
    assert whole.agents["two"].controls == whole.controls
    assert whole.providers["house"]["headers"] == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    ("outer", "inner", "kept"),
    [
        ({}, {"level": "required"}, {"level": "required"}),
        ({}, {"level": "auto"}, {}),
        ({}, {"level": "off", "network": True, "tier": 1}, {}),
        ({"level": "auto"}, {"level": "required"}, {"level": "required"}),
        ({"level": "auto"}, {"level": "auto"}, {"level": "auto"}),
        ({"level": "auto"}, {"level": "off"}, {}),
        ({"level": "off"}, {"level": "auto"}, {"level": "auto"}),
        ({}, {"tier": 2}, {"tier": 2}),
        ({"tier": 1}, {"tier": 1}, {"tier": 1}),
        ({"tier": 2}, {"tier": 1}, {}),
        ({"network": True}, {"network": False}, {"network": False}),
        ({"network": True}, {"network": True}, {}),
        ({}, {"readable": ("/",), "writable": ("/",), "provider": "mine"}, {}),
    ],
)
def test_a_project_only_tightens(outer: dict[str, Any], inner: dict[str, Any], kept: dict[str, Any]) -> None:
    assert tighten(inner, outer) == kept


def history_of(**history: Any) -> HistoryDescriptor:
    descriptor, problems = read_configuration({"history": history})
    assert not problems
    assert descriptor is not None
    return descriptor.history


def test_what_is_read() -> None:
    assert history_of() == HistoryDescriptor()
    assert history_of(strategy="none").strategy == ()
    assert history_of(strategy="summarize", model="house/small-1", tokens=9000) == HistoryDescriptor(
        strategy=("summarize",), model="house/small-1", tokens=9000
    )
    keys: dict[str, Any] = {"exchanges": 3, "tokens": 9000, "keep": 0, "supersession": False}
    strategy = ("sliding-window", "drop-oldest")
    assert history_of(strategy=[*strategy], **keys) == HistoryDescriptor(strategy=strategy, **keys)


@pytest.mark.parametrize(
    ("history", "key", "hint"),
    [
        ({"strategy": "forget"}, "history.strategy", ""),
        ({"strategy": ["none"]}, "history.strategy", ""),
        ({"strategy": ["drop-oldest", "drop-oldest"]}, "history.strategy", ""),
        ({"tokens": 0}, "history.tokens", ""),
        ({"keep": 1}, "history.keep", ""),
        ({"model": "small"}, "history.model", ""),
        ({"strategy": "drop-oldest", "exchanges": 5}, "history.exchanges", "sliding-window"),
        ({"strategy": "drop-oldest", "model": "house/small"}, "history.model", "summarize"),
        ({"strategy": "none", "tokens": 5}, "history.tokens", "drop-oldest"),
        ({"strategy": "sliding-window", "tokens": 5, "exchanges": 5}, "history.tokens", "Delete one of them"),
        ({"tokns": 5}, "history.tokns", "tokens"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(history: Any, key: str, hint: str) -> None:
    for prefix, table in (("", {"history": history}), ("agents.x.", {"agents": {"x": {"history": history}}})):
        _, problems = read_configuration(table)
        (problem,) = problems
        assert (problem.key or "").startswith(f"{prefix}{key}")
        assert hint in (problem.hint or "")


def test_an_agent_and_a_later_file_say_otherwise_key_by_key() -> None:
    first, _ = read_parts({"history": {"strategy": "summarize", "tokens": 9000, "keep": 0.2}})
    later, _ = read_parts({"history": {"tokens": 7000}, "agents": {"x": {"history": {"strategy": "none"}}, "y": {}}})
    whole = combine([first, later])
    assert whole.history == HistoryDescriptor(strategy=("summarize",), tokens=7000, keep=0.2)
    assert whole.agents["x"].history == HistoryDescriptor(strategy=(), tokens=7000, keep=0.2)
    assert whole.agents["y"].history == whole.history
