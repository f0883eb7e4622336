"""``ripieno check --profile`` and ``--for``: the coverage of an environment, as tables or JSON, and as an exit code."""

from collections.abc import Iterable, Sequence

import click

from ripieno.assembly.availability import how_to_include
from ripieno.assembly.coverage.validation import read_manifest, validate_loaded
from ripieno.assembly.coverage.values import Coverage, EnsembleStatus, TaskStatus, ToolStatus
from ripieno.canisters.display import clean
from ripieno.cli.common import exit_codes
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.options import Format, Settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.exceptions import NameAbsence


def check_environment(settings: Settings, wanted: Sequence[str], output: Format, *, strict: bool) -> None:
    """Prints the coverage, and exits with 1 if something is missing; if ``strict``, also for a single tool.

    ``wanted`` are languages and kinds of tasks.
    """
    languages, kinds = _sort(wanted)
    loaded = load_layers(settings, quiet=output == "json")
    coverage = validate_loaded(loaded, profile=settings.profile, languages=languages, kinds=kinds)
    if output == "json":
        print_json(coverage.mapping())
    else:
        _print(coverage)
    if not coverage.fulfilled or (strict and coverage.lacking_tools):
        raise click.exceptions.Exit(exit_codes.REFUSED)


def split_words(values: Iterable[str]) -> tuple[str, ...]:
    """The unique, comma-separated words of options."""
    words = (word.strip() for value in values for word in value.split(","))
    return tuple(dict.fromkeys(word for word in words if word))


def _sort(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    manifest = read_manifest()
    known = (*manifest.languages, *manifest.kinds)
    for name in wanted:
        if name not in known:
            raise NameAbsence("language or kind of task", name, known)
    return [one for one in wanted if one in manifest.languages], [one for one in wanted if one in manifest.kinds]


def _print(coverage: Coverage) -> None:
    rows = [
        (one.name, one.state, str(len(one.tools)), str(one.present), str(one.callable), f"{one.percent:g} %")
        for one in coverage.categories
    ]
    print_table(("CATEGORY", "STATE", "TOOLS", "PRESENT", "CALLABLE", "COVERAGE"), rows)
    click.echo()
    columns = coverage.matrix
    row = (coverage.profile or "none", *columns.values())
    print_table(("PROFILE", *(name.upper() for name in columns)), [row])
    _print_missing(coverage.ensembles, coverage.lacking_tools)
    if coverage.task is not None:
        _print_task(coverage.task)
    if coverage.configurable:
        names = ", ".join(coverage.configurable)
        click.echo(clean(f"\nConfigurable: {names}. {how_to_include('NAME')}"))
    click.echo(clean(f"\n{coverage.summary()}"))


def _print_missing(ensembles: Iterable[EnsembleStatus], tools: Iterable[ToolStatus]) -> None:
    if lost := [(one.name, one.reason) for one in ensembles if one.reason is not None]:
        click.echo()
        print_table(("MISSING ENSEMBLE", "WHY"), lost)
    rows: dict[tuple[str, str], list[str]] = {}
    for tool in tools:
        rows.setdefault((tool.reason or "", ", ".join(tool.fallback) or "nothing"), []).append(tool.name)
    if rows:
        click.echo()
        print_table(("MISSING TOOL", "WHY", "ALTERNATIVE"), [(", ".join(names), *row) for row, names in rows.items()])


def _print_task(task: TaskStatus) -> None:
    click.echo()
    rows = [(one.name, "ensemble", "yes" if one.reason is None else "missing") for one in task.ensembles]
    rows += [(one.name, "tool", "yes" if one.callable else "missing") for one in task.tools]
    print_table((f"FOR {', '.join(task.names).upper()}", "KIND", "STATE"), rows)
    _print_missing(task.ensembles, [tool for tool in task.tools if not tool.callable])
    if task.included:
        names = ", ".join(f'"{name}"' for name in task.included)
        click.echo(clean(f"\nAssumed for this validation, under [ensembles]: include = [{names}]"))
