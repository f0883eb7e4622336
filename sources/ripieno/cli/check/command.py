"""``ripieno check``: all problems in descriptors and configuration, with file and line."""

import dataclasses
import os
import pathlib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

import click

from ripieno.assembly.configuration import LoadedConfiguration, load_configuration
from ripieno.assembly.plugins import Registry
from ripieno.assembly.trust import TrustStore, find_project
from ripieno.canisters.display import clean, count
from ripieno.cli.check.checks import OF_CONFIGURATIONS, OF_ENSEMBLES
from ripieno.cli.check.coverage import check_environment, split_words
from ripieno.cli.check.functions import check_functions
from ripieno.cli.check.models import check_rows
from ripieno.cli.common import exit_codes
from ripieno.cli.common.findings import Check, Subject, find_problems, project_problems
from ripieno.cli.common.layers import left_out_lines, left_out_mappings, load_layers
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.invokers import INVOCABLE
from ripieno.descriptors.json_schema import FILES
from ripieno.descriptors.loading import Document, Layer, load_ensembles, locate, read_toml
from ripieno.descriptors.profiles import read_profile
from ripieno.descriptors.providers import read_provider
from ripieno.descriptors.reader.kinds import INVALID
from ripieno.descriptors.reader.problems import Problems
from ripieno.ensembles.origin import check_invocable
from ripieno.exceptions import ConfigurationInvalidity, Problem, RipienoError
from ripieno.storage.places import Places
from ripieno.testing.scores import Score
from ripieno.values import Value

#: Whether the functions of an ensemble are imported.
_Imports: TypeAlias = Callable[[EnsembleDescriptor], bool]
#: The kinds of files, each by its tables: a score may lack its header, by mistake.
_KINDS = {**{kind: (kind,) for kind in ("ensemble", "invoker", "provider", "profile")}, "score": ("score", "turns")}


class Findings(Value):
    """The problems, and the number of ensembles: also of those with errors, and of those that are left out."""

    problems: tuple[Problem, ...]
    ensembles: int = 0
    #: The files whose functions were not imported, since they are not trusted.
    unread: tuple[str, ...] = ()
    left_out: LoadedConfiguration | None = None


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=pathlib.Path))
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "--import/--no-import",
    "importing",
    default=None,
    help="Import the Python functions of all files, also untrusted ones; or of none. Default: of trusted files.",
)
@click.option(
    "--for",
    "wanted",
    metavar="NAMES",
    multiple=True,
    help="Validate the environment for tasks: rust, python, javascript, web, data-science, devops.",
)
@formats
@common
@pass_settings
def check(
    settings: Settings,
    paths: tuple[pathlib.Path, ...],
    *,
    strict: bool,
    importing: bool | None,
    wanted: tuple[str, ...],
    output: Format,
) -> None:
    """Check descriptors and configuration.

    Without PATH, checks all layers as they are loaded together; with PATH, only those files and folders. The number of
    ensembles includes those with errors, and those that are left out. Connects nothing and starts no process. Imports
    the Python functions of files that you trust: your own configuration, plugins, and folders that "ripieno trust" has
    stored.

    With --profile or --for, validates the environment instead: which tools of the manifest are available, which are
    missing and why, and what can replace them. Connects nothing, but tries the sandbox. With --for alone, the
    configured profile applies. A category that lacks only your grant, such as the network, is not missing. In JSON,
    "fulfilled" covers what is selected; "complete" and "missing_tools" cover all of the manifest, also what the
    profile leaves out on purpose.

    \b
    Exit code:
      0  no errors; or: everything selected is available
      1  a selected category or ensemble is missing, or a need of the tasks; with --strict, any selected tool
      2  errors, and with --strict warnings; or: a mistake, such as an unknown profile

    \b
    Example:
      ripieno check
      ripieno check ensembles/mine.toml --strict
      ripieno check ensembles/mine.toml --import
      ripieno check --profile full --format json
      ripieno check --profile standard --for python,web
    """
    words = split_words(wanted)
    if wanted and not words:
        raise click.UsageError("--for is empty. Name a language or a kind of task, such as python,web.")
    if settings.profile is not None or words:
        if paths:
            raise click.UsageError(
                "--profile and --for validate the environment and take no PATH. To check files, leave them out."
            )
        check_environment(settings, words, output, strict=strict)
        return
    imports = _trusted(settings) if importing is None else _all(importing)
    findings = (
        _check_paths(settings, paths, imports) if paths else _check_layers(settings, _all(importing is not False))
    )
    errors = sum(problem.severity == "error" for problem in findings.problems)
    warnings = len(findings.problems) - errors
    if output == "json":
        left_out = [] if findings.left_out is None else left_out_mappings(findings.left_out)
        problems = [dataclasses.asdict(problem) for problem in findings.problems]
        print_json(
            {
                "ensembles": findings.ensembles,
                "problems": problems,
                "left_out": left_out,
                "not_imported": findings.unread,
            }
        )
    else:
        for problem in findings.problems:
            click.echo(clean(str(problem)))
        for line in () if findings.left_out is None else left_out_lines(findings.left_out):
            say(line)
        for file in findings.unread:
            say(f"Not imported: the functions of {file}, which is not trusted. To import them: --import")
        ensembles = count(findings.ensembles, "ensemble")
        click.echo(f"Checked {ensembles}: {count(errors, 'error')}, {count(warnings, 'warning')}.")
    if errors or (strict and warnings):
        raise click.exceptions.Exit(exit_codes.INPUT)


def _all(importing: bool) -> _Imports:
    def imports(_: EnsembleDescriptor) -> bool:
        return importing

    return imports


def _trusted(settings: Settings) -> _Imports:
    """Whether the file of an ensemble is trusted: of a trusted layer, or in such a folder if it was only named here."""
    own = Places.of_user()
    store = TrustStore(own.state)

    def trusts(descriptor: EnsembleDescriptor) -> bool:
        if descriptor.layer != "caller" or descriptor.file is None:
            return True
        path = pathlib.Path(descriptor.file).resolve()
        if path.is_relative_to(own.configuration.resolve()):
            return True
        projects = (find_project(folder) for folder in dict.fromkeys((settings.folder.resolve(), *path.parents[:2])))
        return any(
            store.trusts(project) and str(path) in {os.path.realpath(one) for one in project.files}
            for project in projects
            if project is not None
        )

    return trusts


def _check_layers(settings: Settings, imports: _Imports) -> Findings:
    loaded = load_layers(settings, quiet=True)
    findings = _check_configuration(loaded, imports)
    found = (*findings.problems, *project_problems(settings))
    return dataclasses.replace(findings, problems=_sorted(found), left_out=loaded)


def _check_configuration(loaded: LoadedConfiguration, imports: _Imports) -> Findings:
    findings = _find(OF_CONFIGURATIONS, Subject(loaded=loaded, descriptors=tuple(loaded.known.values())), imports)
    read = load_ensembles(loaded.layers)
    names = {*loaded.known, *read.refused, *(one.name for one in read.left_out)}
    # Their authors may trust them later: what needs no trust is found now.
    files = {one.file for one in read.left_out}
    left_out = tuple(one for one in read.descriptors if one.file in files)
    more = _find(OF_ENSEMBLES, Subject(loaded=loaded, descriptors=left_out), _all(importing=False))
    partial = _find_in_part(Subject(loaded=loaded, descriptors=loaded.unreadable), imports, findings.problems)
    return dataclasses.replace(
        findings,
        problems=(*findings.problems, *more.problems, *partial.problems),
        ensembles=len(names),
        unread=tuple(dict.fromkeys((*findings.unread, *partial.unread))),
    )


def _find(checks: Iterable[Check], subject: Subject, imports: _Imports) -> Findings:
    imported = tuple(one for one in subject.descriptors if imports(one))
    functions = dataclasses.replace(subject, descriptors=imported)
    problems = [
        problem for one in checks for problem in find_problems([one], functions if one is check_functions else subject)
    ]
    unread = [
        one.file
        for one in subject.descriptors
        if one not in imported and one.file and any(tool.invocable.origin == "python" for tool in one.invokers)
    ]
    return Findings(tuple(problems), unread=tuple(dict.fromkeys(unread)))


def _find_in_part(subject: Subject, imports: _Imports, reported: Collection[Problem]) -> Findings:
    """The further errors of files with errors, as far as they could be read. Warnings could follow from an error."""
    known = {(one.file, one.key) for one in reported if one.severity == "error"}
    findings = _find(OF_ENSEMBLES, subject, imports)
    problems = (one for one in findings.problems if one.severity == "error" and (one.file, one.key) not in known)
    return dataclasses.replace(findings, problems=tuple(problems))


def _check_paths(settings: Settings, paths: Sequence[pathlib.Path], imports: _Imports) -> Findings:
    """Checks each file by its kind, also those in folders; configurations with all layers beneath them."""
    found: list[Problem] = []
    ensembles: list[pathlib.Path] = []
    unread: list[str] = []
    number = 0
    base = load_configuration(settings.config)
    for path in _files(paths, found):
        try:
            document = read_toml(path)
        except ConfigurationInvalidity as invalidity:
            found.extend(invalidity.problems if path.exists() else _explain_absence(path, base, invalidity.problems))
            continue
        kind = next((kind for kind, table in _KINDS.items() if not document.mapping.keys().isdisjoint(table)), "config")
        if kind == "ensemble":
            ensembles.append(path)
        elif kind == "config":
            loaded = load_configuration(path, workspace=settings.workspace)
            findings = _check_configuration(loaded, imports)
            found.extend(findings.problems)
            unread += findings.unread
            number += findings.ensembles
        else:
            found.extend(_check_document(kind, document, base.registry))
    read = load_ensembles([Layer(name="caller", paths=tuple(ensembles))])
    subject = Subject(loaded=base, descriptors=tuple(read.ensembles.values()))
    findings = _find(OF_ENSEMBLES, subject, imports)
    partial = _find_in_part(Subject(loaded=base, descriptors=read.unreadable), imports, read.problems)
    found += (*read.problems, *findings.problems, *partial.problems)
    unread += (*findings.unread, *partial.unread)
    return Findings(problems=_sorted(found), ensembles=len(ensembles) + number, unread=tuple(dict.fromkeys(unread)))


def _explain_absence(path: pathlib.Path, loaded: LoadedConfiguration, problems: Sequence[Problem]) -> Iterator[Problem]:
    """The problems of a missing file, with the command that checks the ensemble of its name."""
    name, _, tool = path.name.partition(".")
    descriptor = loaded.known.get(name)
    if descriptor is None or tool == "toml":
        yield from problems
        return
    where = "" if descriptor.file is None else f" {shlex.quote(descriptor.file)}"
    hint = f"{name!r} is an ensemble. Did you mean: ripieno check{where}"
    yield from (dataclasses.replace(problem, hint=hint) for problem in problems)


def _files(paths: Iterable[pathlib.Path], found: list[Problem]) -> Iterator[pathlib.Path]:
    """The files to check: those that are named, and all TOML files in named folders and their data folders."""
    for path in paths:
        if not path.is_dir():
            yield path.absolute()
            continue
        files = [file for folder in ("", *(f"{kind}s" for kind in _KINDS)) for file in (path / folder).glob("*.toml")]
        if not files:
            found.append(Problem(message="there is no TOML file in this folder", file=str(path)))
        yield from sorted(file.absolute() for file in files)


def _check_document(kind: str, document: Document, registry: Registry) -> Sequence[Problem]:
    match kind:
        case "provider":
            descriptor, found = read_provider(document.mapping, document.source)
            return found if descriptor is None else [*found, *locate(check_rows(descriptor))]
        case "profile":
            return read_profile(document.mapping, document.source)[1]
        case "score":
            try:
                Score.of(document.mapping, source=document.source)
            except ConfigurationInvalidity as invalidity:
                return invalidity.problems
            return ()
        case _:
            return _check_invoker(document, registry)


def _check_invoker(document: Document, registry: Registry) -> Sequence[Problem]:
    """Checks an invoker file without its ensemble: its keys, and those of its origin."""
    problems = Problems(document.source)
    read = FILES["invoker"].read(document.mapping, (), problems)
    if read is not INVALID and "invocable" in read:
        settings = INVOCABLE.rest(document.mapping["invocable"])
        try:
            name = read["invocable"].get("origin", INVOCABLE.known["origin"].default)
            check_invocable(registry.resolve("origins", name), settings, problems)
        except RipienoError as error:
            problems.add(("invocable", "origin"), str(error))
    return problems.finished()


def _sorted(problems: Collection[Problem]) -> tuple[Problem, ...]:
    """Each problem once, as an error if it is one: errors first, then by place."""
    unique = {dataclasses.replace(one, severity="error"): one for one in problems if one.severity != "error"}
    unique |= {one: one for one in problems if one.severity == "error"}
    return tuple(sorted(unique.values(), key=lambda one: (one.severity != "error", one.file or "", one.line or 0)))
