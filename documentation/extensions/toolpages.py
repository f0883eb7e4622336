"""The reference of the bundled tools, from the package and its examples, as reStructuredText: one section per tool."""

import functools
import json
import pathlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.approvals.rules import expect
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles.requirements import NETWORK, SANDBOX, programs_of

ROOT = pathlib.Path(__file__).parents[2]
#: An example for each tool, a file for each ensemble: ``[shared]`` holds for all of a file, ``[tools.NAME]`` for one.
#: ``arguments`` are the call's, ``result`` is what a model reads, with JSON broken into lines. ``files`` are in the
#: workspace before, ``prepare`` is a shell script that ran there, ``before`` are calls that were made, ``serves`` are
#: the answers of a server, by path, and ``answer`` is what somebody says who is asked. ``varies`` has the parts of the
#: result that are never the same, with their patterns; ``otherwise`` is a pattern of what the tool says where something
#: is missing that it cannot know of; ``configuration`` is the ensemble's.
EXAMPLES = ROOT / "documentation" / "examples" / "tools"


@functools.cache
def bundled() -> Mapping[str, EnsembleDescriptor]:
    """The ensembles of the package."""
    loaded = load_ensembles([Layer(name="package", folders=(ROOT / "data",))])
    if loaded.problems:
        raise ValueError(f"The bundled ensembles have problems: {loaded.problems}")
    return loaded.ensembles


@functools.cache
def examples(ensemble: str) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """The part that all examples of an ensemble share, and the examples by tool."""
    file = EXAMPLES / f"{ensemble}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return tables.get("shared", {}), tables.get("tools", {})


def overview() -> str:
    """A table of the ensembles, with links to their tools."""
    rows = [
        (
            f"``{name}``",
            escaped(descriptor.description),
            ", ".join(f":ref:`{one.name} <{_label(name, one)}>`" for one in descriptor.invokers)
            or "those that its server lists when it connects",
        )
        for name, descriptor in sorted(bundled().items())
    ]
    return "\n".join(_table(("ensemble", "purpose", "tools"), rows, (14, 36, 50)))


def reference(name: str) -> str:
    """An ensemble: the part that its examples share, then its tools."""
    descriptor = bundled()[name]
    shared, each = examples(name)
    lines = [escaped(descriptor.description), ""]
    if descriptor.requires:
        lines += [f"It requires {_needs(descriptor.requires)}.", ""]
    if not descriptor.invokers:
        lines += ["Its tools are known only when it is connected, so this page lists none.", ""]
    if shared:
        lines += ["All examples use:", "", *_around(name, shared)]
    for invoker in descriptor.invokers:
        lines += _tool(descriptor, invoker, each[invoker.name])
    return "\n".join(lines)


def _label(ensemble: str, invoker: InvokerDescriptor) -> str:
    return f"tool-{ensemble}-{invoker.name}"


def _tool(ensemble: EnsembleDescriptor, invoker: InvokerDescriptor, example: Mapping[str, Any]) -> Iterator[str]:
    identity, policy = f"{ensemble.name}.{invoker.name}", invoker.policy
    verdict = expect(identity, policy, CallRules())
    requires = (*ensemble.requires, *policy.requires)
    asks = "no" if verdict.action == "run" else f"yes: {verdict.reason}"
    yield from (f".. _{_label(ensemble.name, invoker)}:", "", f"``{invoker.name}``", "~" * (len(invoker.name) + 4), "")
    yield from (escaped(invoker.description.strip()), "")
    yield f":effect: {policy.effect}{', and the run ends after it' if policy.terminal else ''}"
    yield f":asks for approval by default: {asks}"
    yield f":requires: {_needs(requires) or 'no program'}"
    yield f":sandbox: {_sandbox(invoker, requires)}"
    yield f":timeout: {_timeout(invoker)}"
    yield ""
    yield from _arguments(invoker)
    yield from _around(ensemble.name, example)
    call = {"name": invoker.name, "arguments": example["arguments"]}
    yield from ("Call:", "", *block(json.dumps(call, ensure_ascii=False, indent=2), "json"))
    yield from ("Result:", "", *block(example["result"])) if example["result"] else ("The result is an empty text.", "")


def _needs(requires: Sequence[str]) -> str:
    needs = [f"``{name}``" for name in dict.fromkeys(programs_of(requires))]
    return ", ".join([*needs, *(["a host that the operator has listed"] if NETWORK in requires else [])])


def _sandbox(invoker: InvokerDescriptor, requires: Sequence[str]) -> str:
    if SANDBOX in requires:
        return 'tier 1 or higher, unless ``[sandbox] level`` is ``"auto"`` or ``"off"``'
    if invoker.invocable.origin == "command" and not invoker.invocable.settings.get("confined"):
        return "none; the program runs with your rights"
    return "not needed"


def _timeout(invoker: InvokerDescriptor) -> str:
    argument = invoker.policy.timeout_argument
    if argument is None:
        return f"{invoker.policy.timeout:g} s"
    schema = invoker.arguments["properties"][argument]
    return f"``{argument}``: {schema['minimum']} to {schema['maximum']} s, {schema['default']} s by default"


def _arguments(invoker: InvokerDescriptor) -> Iterator[str]:
    """The table of the arguments that a model may set."""
    required, properties = invoker.arguments.get("required", ()), invoker.arguments.get("properties", {})
    rows: list[Sequence[str]] = []
    for name, schema in properties.items():
        if name in invoker.policy.presets:
            continue
        default = "required" if name in required else ""
        if "default" in schema:
            default = f"``{json.dumps(schema['default'], ensure_ascii=False)}``"
        rows.append((f"``{name}``", kind(schema), default, escaped(schema.get("description", "").strip())))
    if rows:
        yield from _table(("argument", "type", "default", "meaning"), rows, (20, 25, 15, 40))
    else:
        yield from ("It takes no arguments.", "")


def kind(schema: Mapping[str, Any]) -> str:
    """The allowed values, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(f"``{json.dumps(value)}``" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"])
    names = schema.get("type", "any JSON value")
    words = names if isinstance(names, str) else " or ".join(names)
    units = {"string": " characters", "array": " items", "object": " properties"}.get(words, "")
    least = next((schema[key] for key in ("minimum", "minLength", "minItems") if key in schema), None)
    most = next((schema[key] for key in ("maximum", "maxLength", "maxItems", "maxProperties") if key in schema), None)
    if least is not None and most is not None:
        words += f", {least} to {most}{units}"
    elif least is not None and (least, units) != (1, " characters"):
        words += f", at least {least}{units}"
    elif most is not None:
        words += f", at most {most}{units}"
    each = next(
        (schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), Mapping)), None
    )
    return words + (f"; each: {kind(each)}" if each is not None else "")


def _around(ensemble: str, example: Mapping[str, Any]) -> Iterator[str]:
    """The state before a call, and the answers of others during it."""
    if "configuration" in example:
        pairs = "\n".join(f"{key} = {json.dumps(value)}" for key, value in example["configuration"].items())
        yield from ("Configuration:", "", *block(f"[configuration.{ensemble}]\n{pairs}", "toml"))
    for name, text in example.get("files", {}).items():
        yield from (f"The file ``{name}`` contains:", "", *block(text))
    if "prepare" in example:
        yield from ("Commands that were run before, in a shell:", "", *block(example["prepare"], "sh"))
    for path, text in example.get("serves", {}).items():
        yield from (f"A server at ``http://127.0.0.1:8080`` answers ``{path}`` with:", "", *block(text))
    for call in example.get("before", ()):
        said = {"name": call["tool"].partition(".")[2], "arguments": call["arguments"]}
        yield from ("Call that was made before:", "", *block(json.dumps(said, ensure_ascii=False), "json"))
    if "answer" in example:
        yield from (f"The user answers the question with ``{json.dumps(example['answer'], ensure_ascii=False)}``.", "")


def block(text: str, language: str = "text") -> Iterator[str]:
    """A literal block without empty lines at its end."""
    yield from (f".. code-block:: {language}", "")
    yield from (f"   {line}".rstrip() for line in text.rstrip("\n").splitlines() or [""])
    yield ""


def escaped(text: str) -> str:
    """A text with escaped markup, on one line."""
    return re.sub(r"([\\*`|_])", r"\\\1", " ".join(text.split()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", "")
    for row in (heads, *rows):
        yield from (f"   {'*' if index == 0 else ' '} - {cell}" for index, cell in enumerate(row))
    yield ""
