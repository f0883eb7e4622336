"""What only the whole configuration can tell: tools of one name, rules that fit no tool, replaced ensembles."""

import os
from collections.abc import Iterator

from ripieno.assembly.configuration import LoadedConfiguration, prefix_of
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.loading import load_ensembles
from ripieno.descriptors.names import expose, matches
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.rules import Pattern
from ripieno.exceptions import Problem, nearest
from ripieno.jsonvalues import EMPTY


def exposed_names(descriptor: EnsembleDescriptor) -> Iterator[tuple[Path, InvokerDescriptor, str]]:
    """The declared tools that play, each with its place and the name that a model sees."""
    for invoker, path in descriptor.located():
        if invoker.enabled:
            yield path, invoker, expose(invoker.name, prefix_of(descriptor))


def check_names(subject: Subject) -> Iterator[Problem]:
    """Tools that two ensembles would offer under one name. What a connection offers is known only when connected."""
    holders: dict[str, str] = {}
    for descriptor in subject.loaded.ensembles:
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
    loaded = subject.loaded
    if loaded.failures:
        return  # A rule may fit tools of a file that could not be read.
    known = loaded.known.values()
    identities = [f"{one.name}.{invoker.name}" for one in known for invoker in one.invokers]
    # What a connection offers is known only when it is connected: any name may be one of its tools.
    identities += [f"{one.name}.{name}" for one in known for name in one.overrides]
    open_ended = [one.name for one in known if one.connection is not None]
    likely = [*identities, *loaded.known, *(f"{name}.*" for name in loaded.known)]
    rules = loaded.configuration.confirmation
    for key, patterns in (("approve", rules.approve), ("ask", rules.ask), ("deny", rules.deny)):
        for pattern in patterns:
            tool = Pattern.parse(pattern).tool
            half = tool.partition(".")[0]
            if any(matches(tool, one) for one in identities) or any(matches(half, f"{one}.") for one in open_ended):
                continue
            near = nearest(tool, likely)
            hint = (
                f"Did you mean {' or '.join(map(repr, near))}?"
                if near
                else "`ripieno tools` lists the tools that play."
            )
            place = _place_of(loaded, key, pattern)
            yield finding(*place, f"{pattern!r}, which [confirmation] {key} has, fits no tool", hint)


def _place_of(loaded: LoadedConfiguration, key: str, pattern: str) -> tuple[str | None, Path]:
    """The first file that has a pattern under [confirmation], and where."""
    for part in loaded.parts:
        patterns = part.parts.get("confirmation", EMPTY).get(key, ())
        if pattern in patterns:
            return part.file, ("confirmation", key, patterns.index(pattern))
    return None, ("confirmation", key)


def check_replaced(subject: Subject) -> Iterator[Problem]:
    """Warnings about ensembles that take the place of a bundled one; disabling one so is no accident."""
    bundled = load_ensembles([layer for layer in subject.loaded.layers if layer.name == "package"]).ensembles
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
