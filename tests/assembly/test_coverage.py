"""The coverage of an environment: the manifest, its profiles, and single tasks."""

import dataclasses
import pathlib
import re
import textwrap
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.assembly import assemble
from ripieno.assembly.configuration import load_configuration, provision
from ripieno.assembly.coverage.validation import read_manifest, validate_environment, validate_for_task, validate_loaded
from ripieno.assembly.coverage.values import CategoryStatus, Coverage, EnsembleStatus, ToolStatus, percent
from ripieno.descriptors.profiles import read_profile
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import AssemblyFailure, NameAbsence
from tests.support.command_line import User

#: Seed 000, section 11.3.
MINIMUM = {
    "execution": "bash python_exec node_exec",
    "file_read": "read_file read_lines head tail cat",
    "file_write": "write_file append_file create_file edit_file patch_file",
    "file_manage": "delete_file rename_file move_file copy_file chmod",
    "directory": "list_files list_dir mkdir rmdir tree",
    "search": "search grep find glob ripgrep",
    "git": "git_status git_diff git_log git_commit git_add git_checkout git_branch git_merge git_stash",
    "testing": "run_tests pytest jest cargo_test go_test",
    "validation": "lint typecheck format syntax_check",
    "process": "spawn kill ps wait signal",
    "network": "http_get http_post curl wget download",
    "reasoning": "think plan summarize reflect",
    "control": "submit abort retry checkpoint",
}
#: Seed 000, section 11.2.
REQUIRED = """
    bash run_command read_file write_file edit_file create_file delete_file list_files create_directory
    delete_directory move copy search find_files grep glob spawn_process kill_process wait background git_status
    git_diff git_commit git_checkout git_branch run_tests check_syntax lint typecheck http_request download upload
    think plan reflect submit ask_user abort
"""
#: Seed 000, section 11.6: Bash, Files, Git, Tests, Network, Browser, Docker.
MATRIX = {
    "minimal": "yes yes no no no no no",
    "standard": "yes yes yes yes yes no no",
    "full": "yes yes yes yes yes yes yes",
    "swe-agent": "yes yes yes yes no no no",
    "openhands": "yes yes yes yes yes yes yes",
    "custom": "yes yes yes yes no no no",
}
#: Seed 000, section 11.5.
PROVISIONED = {
    "rust": "cargo rustfmt clippy",
    "python": "pip pytest black mypy",
    "javascript": "npm jest eslint prettier",
    "web": "http_request",
    "data-science": "jupyter plot",
    "devops": "docker kubectl",
}


def settings(**tables: Any) -> Mapping[str, Any]:
    """A configuration in which no sandbox is needed to look at tools, and a host is granted."""
    return {"sandbox": {"level": "off"}, "configuration": {"network": {"hosts": ["a.example"]}}, **tables}


def look(user: User, **arguments: Any) -> Coverage:
    """The coverage of a profile."""
    return validate_environment(settings(), workspace=user.workspace, places=user.places, layers="user", **arguments)


def test_the_manifest_has_every_name_of_the_seed() -> None:
    manifest = read_manifest()
    assert set(manifest.categories) == set(MINIMUM)
    for category, names in MINIMUM.items():
        assert set(names.split()) <= set(manifest.categories[category])
    names = [name for tools in manifest.categories.values() for name in tools]
    assert len(names) == len(set(names)) == 77
    assert set(REQUIRED.split()) | {name for tools in MINIMUM.values() for name in tools.split()} == set(names)
    tasks = {**manifest.languages, **manifest.kinds}
    assert set(tasks) == set(PROVISIONED)
    for name, tools in PROVISIONED.items():
        assert set(tools.split()) <= set(tasks[name].tools)


def test_fallbacks_are_tools_that_there_are(user: User) -> None:
    manifest = read_manifest()
    loaded = load_configuration(places=user.places)
    known = {invoker.name for one in loaded.known.values() for invoker in one.invokers}
    for name, fallbacks in manifest.fallbacks.items():
        assert {name, *fallbacks} <= known
        assert name not in fallbacks
    assert set(manifest.shells) <= known
    assert set(manifest.shell_categories) <= set(manifest.categories)


def test_every_name_is_present_described_and_callable_in_full(user: User, equipped: pathlib.Path) -> None:
    coverage = look(user, profile="full")
    for tool in coverage.tools:
        assert (tool.present, tool.described, tool.reason) == (True, True, None), tool
    assert (coverage.coverage_percent, coverage.complete, coverage.fulfilled) == (100.0, True, True)
    assert coverage.summary() == "The profile 'full' has 13 of 13 categories, and 100 % of the tools."


@pytest.mark.parametrize("profile", MATRIX)
def test_the_matrix(user: User, equipped: pathlib.Path, profile: str) -> None:
    coverage = look(user, profile=profile)
    assert list(coverage.matrix) == ["Bash", "Files", "Git", "Tests", "Network", "Browser", "Docker"]
    assert list(coverage.matrix.values()) == MATRIX[profile].split()
    assert coverage.fulfilled
    assert coverage.configurable == (("network", "browser", "docker") if profile == "custom" else ())


@pytest.mark.parametrize("profile", [*MATRIX, "starter"])
async def test_no_two_tools_of_a_profile_have_one_name(user: User, profile: str) -> None:
    every = provision(
        load_configuration(settings(), places=user.places, workspace=user.workspace),
        profile=profile,
        include=["rust", "python", "javascript", "data-science", "kubectl", "docker"],
    )
    assert every.failures == ()
    names = [invoker.name for one in every.ensembles for invoker in one.invokers]
    if profile != "starter":
        assert len(names) == len(set(names))


async def test_an_assembly_of_full_plays_what_its_coverage_says(user: User) -> None:
    tables = settings(ensembles={"profile": "full"})
    async with assemble(tables, workspace=user.workspace, places=user.places) as assembly:
        assert assembly.coverage is not None
        offered = {invoker.exposed for invoker in Offer.of(assembly.ensembles).invokers}
        for tool in assembly.coverage.tools:
            assert (tool.name in offered) == tool.callable
            if tool.present and not tool.callable:
                ensemble = assembly.access_ensemble(tool.ensemble or "")
                assert ensemble.left_out[tool.name] == tool.reason


async def test_what_is_missing_is_told_before_anything_is_connected(
    user: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    tables = settings(ensembles={"profile": "full"})
    async with assemble(tables, workspace=user.workspace, places=user.places) as assembly:
        assert assembly.coverage is not None
        assert assembly.alerts[0].message.startswith("Ensemble 'browser' is left out: it requires")
        (told,) = [one.message for one in assembly.alerts if one.message.startswith("The profile")]
        assert told == assembly.coverage.summary()
        assert "Missing: " in told
        for name in ("git", "browser", "docker", "node_exec"):
            assert name in told
        reasons = {one.name: one.reason for one in assembly.absences}
        assert reasons["docker"] == (
            "it requires 'command:docker', and there is no program 'docker' in any folder of PATH."
        )
        with pytest.raises(NameAbsence, match="'docker' is not available: it requires 'command:docker'"):
            assembly.access_ensemble("docker")
        with pytest.raises(NameAbsence, match="node_exec' is left out: it requires 'command:node'"):
            assembly.access_invoker("execution.node_exec")


async def test_nothing_is_told_where_no_profile_is_named_or_all_is_there(user: User) -> None:
    for tables in (settings(), settings(ensembles={"enabled": ["git"]}), settings(ensembles={"profile": "starter"})):
        async with assemble(tables, workspace=user.workspace, places=user.places) as assembly:
            named = "profile" in tables.get("ensembles", {})
            assert (assembly.coverage is not None) == named
            if not named:
                assert assembly.alerts == []


def test_a_missing_program_costs_its_tools_and_names_what_can_be_used(user: User, equipped: pathlib.Path) -> None:
    for name in ("node", "git", "docker", "playwright-mcp"):
        (equipped / name).unlink()
    full = look(user, profile="full")
    tools = {tool.name: tool for tool in full.tools}
    node = tools["node_exec"]
    assert (node.present, node.described, node.fallback) == (True, True, ("python_exec",))
    assert node.reason == "it requires 'command:node', and there is no program 'node' in any folder of PATH"
    assert tools["jest"].fallback == ("run_tests",)
    (equipped / "node").write_text("")
    (equipped / "node").chmod(0o755)
    for name, folder in (("pytest", ".venv/bin"), ("jest", "node_modules/.bin")):
        (equipped / name).unlink()
        missing = {tool.name: tool for tool in look(user, profile="full").lacking_tools}
        why = f"there is no program {name!r}, neither in .venv/bin, venv/bin, node_modules/.bin of the workspace nor in"
        assert why in (missing[name].reason or "")
        # The project's own counts.
        own = user.workspace / folder / name
        own.parent.mkdir(parents=True)
        own.write_text("")
        own.chmod(0o755)
        assert name not in {tool.name for tool in look(user, profile="full").lacking_tools}
    (equipped / "node").unlink()
    assert not full.fulfilled
    assert full.matrix["Browser"] == "missing"


def test_a_category_that_is_not_selected_has_its_reason(user: User, equipped: pathlib.Path) -> None:
    coverage = look(user, profile="minimal")
    tools = {tool.name: tool for tool in coverage.tools}
    assert tools["git_status"].reason == "the ensemble 'git', which has it, is not enabled"
    # A shell can do that; it cannot think.
    assert tools["git_status"].fallback == ("bash", "run_command")
    assert tools["http_get"].fallback == ()
    assert "git_status" not in {tool.name for tool in coverage.lacking_tools}
    assert (coverage.complete, coverage.fulfilled) == (False, True)


def test_a_few_tools_are_no_category(user: User) -> None:
    coverage = look(user, profile="starter")
    (reading,) = [one for one in coverage.categories if one.name == "file_read"]
    assert (reading.present, reading.callable, reading.state) == (1, 1, "no")
    assert coverage.matrix["Files"] == "no"
    # Nobody asked for more than these few.
    assert (coverage.fulfilled, coverage.lacking_tools) == (True, ())


def test_tasks(user: User, equipped: pathlib.Path) -> None:
    def ready(*names: str, profile: str = "minimal") -> Any:
        manifest = read_manifest()
        return validate_for_task(
            [one for one in names if one in manifest.languages],
            [one for one in names if one in manifest.kinds],
            settings(),
            profile=profile,
            workspace=user.workspace,
            places=user.places,
        )

    for name, tools in PROVISIONED.items():
        task = ready(name)
        assert task.ready, task
        assert set(tools.split()) <= {tool.name for tool in task.tools}
    task = ready("python", "devops", profile="full")
    assert (task.names, task.included) == (("python", "devops"), ("python", "kubectl"))
    (equipped / "black").unlink()
    (equipped / "kubectl").unlink()
    task = ready("python", "devops", profile="full")
    assert not task.ready
    lost = {tool.name: tool for tool in task.tools if not tool.callable}
    assert set(lost) == {"black", "kubectl"}
    assert "command:kubectl" in (lost["kubectl"].reason or "")
    assert lost["black"].fallback == ("format",)
    assert ready("rust", profile="full").ready
    with pytest.raises(NameAbsence, match="no language named 'pyton'"):
        validate_for_task(["pyton"], places=user.places)
    with pytest.raises(NameAbsence, match="no language named 'pyton'"):
        validate_for_task("pyton", places=user.places)
    assert validate_for_task("python", "web", places=user.places).names == ("python", "web")
    with pytest.raises(NameAbsence, match="no kind of task named 'webb'"):
        validate_for_task(kinds=["webb"], places=user.places)


def test_a_profile_or_ensemble_that_there_is_not(user: User) -> None:
    for arguments in ({"profile": "fulll"}, {"configuration": {"ensembles": {"include": ["pyhton"]}}}):
        with pytest.raises(AssemblyFailure) as failure:
            validate_environment(places=user.places, **arguments)
        assert isinstance(failure.value.exceptions[0], NameAbsence)


def test_an_ensemble_of_the_users_own_counts(user: User) -> None:
    text = '[ensemble]\nname = "mine"\ncategory = "testing"\n' + "".join(
        f'[[invokers]]\nname = "{name}"\ndescription = "It tests."\n'
        '[invokers.invocable]\norigin = "command"\nargv = ["true"]\n'
        for name in ("run_tests", "pytest", "jest")
    )
    user.ensemble("mine", text)
    coverage = look(user, profile="minimal")
    (testing,) = [one for one in coverage.categories if one.name == "testing"]
    assert (testing.state, testing.present, testing.callable, testing.percent) == ("yes", 3, 3, 60.0)
    assert coverage.matrix["Tests"] == "yes"


def test_what_is_not_described_does_not_count_for_a_category() -> None:
    tools = tuple(ToolStatus(name=name, ensemble="mine", described=name != "c") for name in "abc")
    category = CategoryStatus(name="x", tools=tools, selected=True, minimum=3)
    assert (category.present, category.state) == (2, "missing")


TOOLS = st.lists(
    st.builds(
        ToolStatus,
        name=st.sampled_from("abcdefgh"),
        ensemble=st.sampled_from([None, "mine"]),
        described=st.booleans(),
        reason=st.sampled_from([None, "it is not there"]),
    ),
    max_size=6,
)
CATEGORIES = st.lists(
    st.builds(
        CategoryStatus,
        name=st.sampled_from(["one", "two", "three"]),
        tools=TOOLS.map(tuple),
        selected=st.booleans(),
        minimum=st.integers(0, 3),
    ),
    max_size=4,
)
ENSEMBLES = st.lists(
    st.builds(EnsembleStatus, name=st.just("browser"), reason=st.sampled_from([None, "it is gone"])), max_size=2
)


@given(CATEGORIES, ENSEMBLES)
def test_laws_of_coverage(categories: list[CategoryStatus], ensembles: list[EnsembleStatus]) -> None:
    coverage = Coverage(categories=tuple(categories), ensembles=tuple(ensembles))
    mapping = coverage.mapping()
    assert 0 <= coverage.coverage_percent <= 100
    assert (coverage.coverage_percent == 100) == all(tool.callable for tool in coverage.tools)
    assert mapping["tools_callable"] <= mapping["tools_present"] <= mapping["tools_total"] == len(coverage.tools)
    assert mapping["complete"] == (mapping["missing_categories"] == [])
    # The names of seed 000, section 11.4, mean the same in both forms.
    assert mapping["missing_categories"] == [one.name for one in coverage.missing_categories]
    assert mapping["missing_tools"] == [one.name for one in coverage.missing_tools]
    assert mapping["coverage_percent"] == coverage.coverage_percent
    assert set(coverage.lacking_tools) <= set(coverage.missing_tools)
    assert mapping["categories_present"] + len(mapping["missing_categories"]) == mapping["categories_total"]
    assert coverage.complete <= all(one.state != "missing" for one in coverage.categories)
    for category in categories:
        assert category.state != "yes" or category.callable > 0
        assert (category.state == "no") == (not category.selected)
    lost = [one for one in ensembles if one.reason] + [one for one in categories if one.state == "missing"]
    assert coverage.fulfilled == (not lost)


@given(TOOLS, st.integers(0, 5))
def test_a_tool_that_can_be_called_never_lowers_the_coverage(tools: list[ToolStatus], index: int) -> None:
    if not tools:
        return
    index %= len(tools)
    better = [*tools]
    better[index] = dataclasses.replace(tools[index], ensemble="mine", described=True, reason=None)
    assert percent(better) >= percent(tools)

    def category(these: list[ToolStatus]) -> CategoryStatus:
        return CategoryStatus(name="x", tools=tuple(these), selected=True, minimum=3)

    assert category(better).callable >= category(tools).callable
    assert not (category(tools).state == "yes" and category(better).state == "missing")


def test_looking_leaves_nothing_behind(user: User) -> None:
    loaded = load_configuration(settings(), places=user.places, workspace=user.workspace)
    before = validate_loaded(loaded, profile="full")
    assert validate_loaded(loaded, profile="full") == before
    assert list(user.workspace.iterdir()) == []
    assert loaded.profile is None


def test_the_guide_says_what_the_files_say() -> None:
    guide = (pathlib.Path(__file__).parents[2] / "documentation" / "tutorials" / "profiles.rst").read_text()
    rows = re.findall(r"   \* - ``([\w-]+)``\n((?:     - .*\n)+)", guide)
    told = {name: [cell.strip(" -") for cell in cells.splitlines()] for name, cells in rows}
    for name, states in MATRIX.items():
        assert [one.replace("where included", "no") for one in told[name]] == states.split()
    manifest = read_manifest()
    for name, need in {**manifest.languages, **manifest.kinds}.items():
        ensembles, tools = told[name]
        assert re.findall(r"``([\w-]+)``", ensembles) == list(need.ensembles)
        assert set(re.findall(r"``([\w-]+)``", tools)) == set(need.tools)
    texts = [textwrap.dedent(one) for one in re.findall(r"code-block:: toml\n\n((?:    .*\n|\n)+)", guide)]
    (own,) = [one for one in texts if "[profile]" in one]
    profile, problems = read_profile(tomllib.loads(own))
    assert problems == ()
    assert profile is not None
    assert (profile.categories, profile.ensembles, profile.configurable) == (
        ("file_read", "search"),
        ("git",),
        ("network",),
    )
