"""What only the whole configuration can tell: tools of one name, rules that fit no tool, replaced ensembles."""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.assembly.configuration import prefix_of
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.loading import load_ensembles, read_toml
from ripieno.descriptors.names import expose, matches
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.rules import Pattern
from ripieno.exceptions import ConfigurationInvalidity, Problem, nearest
from ripieno.jsonvalues import is_list, is_table


def exposed_names(descriptor: EnsembleDescriptor) -> Iterator[tuple[Path, InvokerDescriptor, str]]:
    """The declared tools that play, each with its place and the name that a model sees."""
    for invoker, path in descriptor.located():
        if invoker.enabled:
            yield path, invoker, expose(invoker.name, prefix_of(descriptor))


def check_names(subject: Subject) -> Iterator[Problem]:
    """Tools that two ensembles would offer under one name. What a connection offers is known only when connected."""
    holders: dict[str, str] = {}
    for descriptor in subject.gathered.ensembles:
        for body, invoker, name in exposed_names(descriptor):
            identity = f"{descriptor.name}.{invoker.name}"
            holder = holders.setdefault(name, identity)
            if holder != identity:
                free = descriptor.name if prefix_of(descriptor) != descriptor.name else holder.partition(".")[0]
                at, message = (
                    (*(body or ("invoker",)), "name"),
                    f"{identity} and {holder} would both be offered as {name!r}",
                )
                hint = f'Give one of the ensembles a prefix of its own: [ensemble] prefix = "{free}".'
                yield finding(invoker.file, at, message, hint, "error")


def check_rules(subject: Subject) -> Iterator[Problem]:
    """Patterns under [confirmation] that fit no tool; those of ensembles that do not play now may still be meant."""
    gathered = subject.gathered
    if gathered.failures:
        return  # A rule may fit tools of a file that could not be read.
    known = gathered.known.values()
    identities = [f"{one.name}.{invoker.name}" for one in known for invoker in one.invokers]
    # What a connection offers is known only when it is connected: any name may be one of its tools.
    identities += [f"{one.name}.{name}" for one in known for name in one.overrides]
    open_ended = [one.name for one in known if one.connection is not None]
    likely = [*identities, *gathered.known, *(f"{name}.*" for name in gathered.known)]
    tables = [(file, _confirmation(file)) for file in (*gathered.files, *subject.files)]
    rules = gathered.configuration.confirmation
    for key, patterns in (("approve", rules.approve), ("ask", rules.ask), ("deny", rules.deny)):
        for pattern in patterns:
            tool = Pattern.parse(pattern).tool
            half = tool.partition(".")[0]
            if not any(matches(tool, one) for one in identities) and not any(
                matches(half, f"{one}.") for one in open_ended
            ):
                yield _rule_problem(key, pattern, nearest(tool, likely), tables)


def _rule_problem(
    key: str, pattern: str, near: Sequence[str], tables: Iterable[tuple[str, Mapping[str, Any]]]
) -> Problem:
    file, at = next(
        (
            (file, ("confirmation", key, table[key].index(pattern)))
            for file, table in tables
            if _has(table, key, pattern)
        ),
        (None, ("confirmation", key)),
    )
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "`ripieno tools` lists the tools that play."
    return finding(file, at, f"{pattern!r}, which [confirmation] {key} has, fits no tool", hint)


def _has(table: Mapping[str, Any], key: str, pattern: str) -> bool:
    patterns: Any = table.get(key)
    return is_list(patterns) and pattern in patterns


def _confirmation(file: str) -> Mapping[str, Any]:
    """The table [confirmation] of a file; empty where there is none to be read."""
    try:
        table = read_toml(pathlib.Path(file)).mapping.get("confirmation", {})
    except ConfigurationInvalidity:
        return {}
    return table if is_table(table) else {}


def check_replaced(subject: Subject) -> Iterator[Problem]:
    """Warnings about ensembles that take the place of a bundled one; disabling one so is no accident."""
    bundled = load_ensembles([layer for layer in subject.gathered.layers if layer.name == "package"]).ensembles
    for descriptor in subject.descriptors:
        earlier = bundled.outlines.get(descriptor.name)
        if earlier is None or not descriptor.enabled or _is_same(earlier.file, descriptor.file):
            continue
        here = descriptor.file or "one in the configuration"
        message = f"the ensemble {descriptor.name!r} ({here}) replaces the bundled one ({earlier.file})"
        lost = ", ".join(one.name for one in bundled[earlier.name].invokers)
        hint = f"Its tools are gone: {lost}. To have both, give yours another name."
        yield finding(descriptor.file, ("ensemble", "name"), message, hint)


def _is_same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and os.path.realpath(one) == os.path.realpath(other)
