"""The input and output of the checks that ``check`` and ``doctor`` run, and the checks that compare several files."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ripieno.assembly.configuration import LoadedConfiguration, load_configuration, prefix_of
from ripieno.assembly.failures import find_failures, problems_of
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.ensembles import say_alert
from ripieno.cli.common.layers import project_of, untrusted
from ripieno.cli.common.options import Settings
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.ensembles import is_foreign
from ripieno.descriptors.loading import load_ensembles, locate
from ripieno.descriptors.loading.layers import is_same_file
from ripieno.descriptors.names import expose, matches
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.descriptors.rules import Pattern
from ripieno.ensembles import Surroundings
from ripieno.ensembles.offers import advise_on_clash
from ripieno.exceptions import ConfigurationInvalidity, Problem, RipienoError, nearest
from ripieno.jsonvalues import EMPTY, is_table
from ripieno.values import Value

#: Keywords under which a schema may name further arguments.
PARTS = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"})


class Subject(Value, kw_only=True, dict=True):
    """The ensembles to check, and the configuration that loads them."""

    loaded: LoadedConfiguration
    descriptors: tuple[EnsembleDescriptor, ...]

    @functools.cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The errors that prevent a start-up."""
        found: list[Problem] = []
        for failure in self.loaded.failures:
            if isinstance(failure, ConfigurationInvalidity):
                found.extend(failure.problems)
            else:
                found.append(Problem(message=str(failure)))
        return tuple(found)

    @functools.cached_property
    def surroundings(self) -> Surroundings:
        """The surroundings that an assembly of the configuration would have."""
        return make_assembly(self.loaded, alert=say_alert).surroundings


#: Finds problems, each with a file and a key; their lines are added.
Check: TypeAlias = Callable[[Subject], Iterable[Problem]]


def find_problems(checks: Iterable[Check], subject: Subject) -> tuple[Problem, ...]:
    """The problems that the checks find, with line numbers."""
    return locate(problem for check in checks for problem in check(subject))


def find_start_failures(loaded: LoadedConfiguration) -> tuple[RipienoError, ...]:
    """Everything that prevents a start, as far as it is known without a connection."""
    clashes = find_problems([check_names], Subject(loaded=loaded, descriptors=()))
    return (*find_failures(loaded), *([ConfigurationInvalidity(clashes)] if clashes else ()))


def project_problems(settings: Settings) -> tuple[Problem, ...]:
    """What prevents no start-up while a project is untrusted, and would if it was trusted."""
    project = project_of(settings)
    if project is None or not untrusted(project):
        return ()
    own = load_configuration(settings.config, workspace=settings.workspace)
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project, trusting=True)
    known = {*problems_of(find_start_failures(own))}
    return tuple(one for one in problems_of(find_start_failures(loaded)) if one not in known)


def finding(file: str | None, path: Path, message: str, hint: str, severity: str = "warning") -> Problem:
    """A problem at a key: a message, and a hint with the next step."""
    return Problem(message=message, file=file, key=dotted(path), hint=hint, severity=severity)


def exposed_names(descriptor: EnsembleDescriptor) -> Iterator[tuple[Path, InvokerDescriptor, str]]:
    """The enabled, declared tools: the place in the file, the invoker, and the name for the model."""
    for invoker, path in descriptor.located():
        if invoker.enabled:
            yield path, invoker, expose(invoker.name, prefix_of(descriptor))


def check_names(subject: Subject) -> Iterator[Problem]:
    """Errors for tools that two ensembles would offer under one name. Connections are not considered."""
    holders: dict[str, tuple[EnsembleDescriptor, InvokerDescriptor]] = {}
    for descriptor in subject.loaded.ensembles:
        for body, invoker, name in exposed_names(descriptor):
            ensemble, other = holders.setdefault(name, (descriptor, invoker))
            alike = dataclasses.replace(invoker, configuration=other.configuration)
            if ensemble is descriptor or (
                (alike, invoker.file) == (other, other.file) and descriptor.layer == ensemble.layer == "package"
            ):
                continue  # A bundled tool of two bundled ensembles is offered once.
            identity, holder = f"{descriptor.name}.{invoker.name}", f"{ensemble.name}.{other.name}"
            at, message = (
                (*(body or ("invoker",)), "name"),
                f"{identity} and {holder} would both be offered as {name!r}",
            )
            hint = advise_on_clash((one.name, prefix_of(one), one.layer) for one in (descriptor, ensemble))
            yield finding(invoker.file, at, message, hint, "error")


def check_rules(subject: Subject) -> Iterator[Problem]:
    """Warnings about patterns under [confirmation] that match no tool, or that name an argument that no tool has."""
    loaded = subject.loaded
    if loaded.registry.failures or loaded.registry.missing:
        return  # A rule may fit tools of a plugin that is absent.
    known = loaded.known.values()
    tools = {f"{one.name}.{invoker.name}": invoker for one in known for invoker in one.invokers}
    identities = [*tools]
    # The tools of a connection are unknown until it is connected: any name may match.
    identities += [f"{one.name}.{name}" for one in known for name in one.overrides]
    open_ended = [*loaded.unread, *(one.name for one in known if one.connection is not None)]
    likely = [*identities, *loaded.known, *(f"{name}.*" for name in loaded.known)]
    rules = loaded.configuration.confirmation
    for key, patterns in (("approve", rules.approve), ("ask", rules.ask), ("deny", rules.deny)):
        for pattern in patterns:
            parsed = Pattern.parse(pattern)
            tool = parsed.tool
            half = tool.partition(".")[0]
            if any(matches(half, f"{one}.") for one in open_ended):
                continue
            if any(matches(tool, one) for one in identities):
                arguments = _arguments_of([invoker for name, invoker in tools.items() if parsed.meets(name)])
                for name in [name for name, _ in parsed.conditions if arguments and name not in arguments]:
                    message = f"the pattern {pattern!r} in [confirmation] {key} names {name!r}, which is no argument"
                    near = nearest(name, arguments)
                    hint = f"Did you mean {near[0]!r}?" if near else f"Arguments of {tool}: {', '.join(arguments)}."
                    yield finding(*_place_of(loaded, key, pattern), message, hint)
                continue
            near = nearest(tool, likely)
            hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "To list the tools: ripieno tools"
            place = _place_of(loaded, key, pattern)
            yield finding(*place, f"the pattern {pattern!r} in [confirmation] {key} matches no tool", hint)


def _arguments_of(invokers: Sequence[InvokerDescriptor]) -> Sequence[str]:
    """The arguments that any of the tools has; none if one of them may have others."""
    found: dict[str, None] = {}
    for invoker in invokers:
        schema: Mapping[str, Any] = invoker.arguments
        properties = schema.get("properties")
        if not is_table(properties) or not PARTS.isdisjoint(schema) or schema.get("additionalProperties"):
            return ()
        found.update(dict.fromkeys((*properties, *invoker.policy.presets)))
    return tuple(found)


def _place_of(loaded: LoadedConfiguration, key: str, pattern: str) -> tuple[str | None, Path]:
    for part in loaded.parts:
        patterns = part.parts.get("confirmation", EMPTY).get(key, ())
        if pattern in patterns:
            return part.file, ("confirmation", key, patterns.index(pattern))
    return None, ("confirmation", key)


def check_replaced(subject: Subject) -> Iterator[Problem]:
    """Warnings about ensembles that replace one of the package or of a plugin. Disabling it this way is intended.

    What an enabled ensemble offers under the same name stays available, and everything until a project is trusted.
    """
    loaded = subject.loaded
    foreign = [one for one in loaded.layers if is_foreign(one.name)]
    earlier_ones = load_ensembles(foreign).ensembles
    for descriptor in subject.descriptors:
        earlier = earlier_ones.outlines.get(descriptor.name)
        if earlier is None or not descriptor.enabled or is_same_file(earlier.file, descriptor.file):
            continue
        waits = any((one.name, one.file) == (descriptor.name, descriptor.file) for one in loaded.left_out)
        here = descriptor.file or "one in the configuration"
        theirs = "the bundled one" if earlier.layer == "package" else f"that of the {earlier.layer}"
        replaces = "would replace, once it is trusted," if waits else "replaces"
        message = f"the ensemble {descriptor.name!r} ({here}) {replaces} {theirs} ({earlier.file})"
        others = (one for one in (descriptor, *loaded.ensembles) if one is descriptor or one.name != descriptor.name)
        offered = {name for one in others for _, _, name in exposed_names(one)}
        lost = [name for _, _, name in exposed_names(earlier_ones[earlier.name]) if name not in offered]
        hint = "To have both, rename yours."
        if lost and not waits:
            hint = f"These tools are no longer available: {', '.join(lost)}. {hint}"
        yield finding(descriptor.file, ("ensemble", "name"), message, hint)
