"""Missing variables and programs that the origins of ensembles need."""

import importlib.util
import os
from collections.abc import Iterator

from ripieno.assembly.plugins import Registry
from ripieno.assembly.programs import missing_programs, needs_of
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.journal import address_fault
from ripieno.descriptors.loading.unknown_names import file_of
from ripieno.descriptors.reader.alternatives import variables_in
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.descriptors.templates import Template
from ripieno.ensembles import Surroundings
from ripieno.ensembles.origin import NeededProgram, NeededVariable, needed_variables
from ripieno.exceptions import Problem
from ripieno.origins.settings import advise_setting, why_missing
from ripieno.storage.files import unwritable
from ripieno.storage.places import Places


def absent_variables(descriptor: EnsembleDescriptor, registry: Registry, surroundings: Surroundings) -> list[str]:
    """The missing variables that an ensemble needs."""
    needed = {need.name for need in needs_of(descriptor, registry, needed_variables)}
    return sorted(needed - surroundings.secrets.keys())


def check_variables(subject: Subject) -> Iterator[Problem]:
    """A warning for each missing variable that enabled ensembles need, at its first place."""
    places: dict[str, tuple[str | None, Path]] = {}
    users: dict[str, dict[str, EnsembleDescriptor]] = {}
    for descriptor in subject.descriptors:
        for need in needs_of(descriptor, subject.loaded.registry, needed_variables) if descriptor.enabled else ():
            if need.name not in subject.surroundings.secrets:
                places.setdefault(need.name, _place(descriptor, need))
                users.setdefault(need.name, {})[descriptor.name] = descriptor
    for name, place in places.items():
        why = why_missing([name], subject.surroundings)
        message = f"the variable {name} {why}, and is needed by {' and '.join(map(repr, users[name]))}"
        hint = advise_setting([name], subject.surroundings)
        if needed := [one.name for one in users[name].values() if one.required]:
            hint += (
                f" Without it, every start with {' or '.join(map(repr, needed))} fails. "
                "To start without the ensemble instead: required = false under its [ensemble]."
            )
        yield finding(*place, message, hint)


def check_journal(subject: Subject) -> Iterator[Problem]:
    """What keeps ``[journal] url`` from being used: nothing could be recorded.

    That is a missing variable (a warning, since it may be set elsewhere), a wrong value, or a missing library.
    """
    loaded = subject.loaded
    path: Path = ("journal", "url")
    file, url = file_of(loaded.parts, path), loaded.configuration.journal_url or ""
    lacking = [name for name in variables_in(url) if not os.environ.get(name)]
    for name in lacking:
        message = f"the variable {name} is not set, and is needed by {dotted(path)}"
        yield finding(file, path, message, f"Set it: export {name}=... Without it, every command that records fails.")
    if url and not lacking:
        address = Template.parse(url, variables=True).text({}, os.environ)
        if fault := address_fault(address):
            names = " and ".join(variables_in(url))
            message = f"with the value of {names}, {dotted(path)} {fault}"
            hint = f"Set another one: export {names}=... Every command that records fails."
            yield finding(file, path, message, hint, "error")
            return
    if url and importlib.util.find_spec("psycopg") is None:
        # The extra of the queue has it, too: then one command installs all that is missing.
        queue = file_of(loaded.parts, ("durable",)) is not None and importlib.util.find_spec("dbos") is None
        extra = "durable" if queue else "postgres"
        hint = f"Install it: pip install 'ripieno[{extra}]' Without it, every command that records fails."
        yield finding(file, path, f"{dotted(path)} needs the library psycopg, which is not installed", hint, "error")


def check_state(subject: Subject) -> Iterator[Problem]:
    """A warning if the state folder cannot be written. Another user may be meant to."""
    folder = subject.loaded.state or Places.of_user().state
    if why := unwritable(folder):
        message = f"the state folder {folder} cannot be written: {why}"
        hint = "Run as its owner, or name another one: export RIPIENO_STATE_HOME=... Without it, nothing is recorded."
        yield Problem(message=message, hint=hint, severity="warning")


def check_durable(subject: Subject) -> Iterator[Problem]:
    """A warning if ``[durable]`` has settings, and the engine of the queue is not installed."""
    path: Path = ("durable",)
    file = file_of(subject.loaded.parts, path)
    if file is not None and importlib.util.find_spec("dbos") is None:
        hint = "Install it: pip install 'ripieno[durable]' Without it, no run can be submitted, and no worker starts."
        yield finding(file, path, "[durable] needs the library dbos, which is not installed", hint)


def check_programs(subject: Subject) -> Iterator[Problem]:
    """A warning for each program that is not found.

    There is no warning for a program under ``requires``: without it the tool is left out, with the reason.
    """
    for descriptor in subject.descriptors:
        for need, *found in missing_programs(descriptor, subject.loaded.registry) if descriptor.enabled else ():
            yield finding(*_place(descriptor, need), *found)


def _place(descriptor: EnsembleDescriptor, need: NeededVariable | NeededProgram) -> tuple[str | None, Path]:
    for invoker, path in descriptor.located():
        if invoker is need.invoker:
            return invoker.file, (*path, "invocable", *need.key)
    return descriptor.file, ("connection", *need.key)
