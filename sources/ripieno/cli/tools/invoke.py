"""``ripieno invoke``: one call of one tool, through the same pipeline as a model's calls.

Reads ``key=value`` arguments by the types in the tool's schema, and saves images, sounds and documents as files.
"""

import contextlib
import dataclasses
import mimetypes
import os
import pathlib
import sys
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ripieno.approvals import Confirmer
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters import (
    AudioContent,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.display import clean, label
from ripieno.canisters.events import Alert, Event, ExecutionProgress
from ripieno.canisters.serialization import serialize
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_argument, complete_tool
from ripieno.cli.common.ensembles import say_alert
from ripieno.cli.common.layers import load_layers, select_ensembles
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import FOLDER, Settings, common, journaled, pass_settings
from ripieno.cli.common.tables import print_json
from ripieno.cli.common.terminal import Terminal, make_confirmer
from ripieno.cli.tools.explanation import Called, explain, suggest_tool, unknown_arguments
from ripieno.conducting.observers.console import Renderer
from ripieno.descriptors.names import split
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import JsonInvalidity
from ripieno.execution import Circumstances, Execution, Prepared
from ripieno.jsonvalues import freeze, is_list, is_table, parse
from ripieno.servers.streams import printing_to_errors

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_TEXT = frozenset({"string"})
_DEPTH = 8


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``key=value`` texts. A text that fits no type stays a text: validation reports it better.

    A list takes its items one by one, or as JSON. Errors: ``click.UsageError`` for a text without "=", and for a
    repeated key of another type.
    """
    arguments: dict[str, Any] = {}
    properties: Mapping[str, Any] = schema.get("properties", {})
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is not an argument of the form key=value, such as path=README.rst.")
        declared = properties.get(key, True)
        value, types = read_value(text, declared, schema), types_of(declared, schema)
        if "array" in types and _type_of(value) not in types:
            value = [read_value(text, declared.get("items", True), schema)]
        if key not in arguments:
            arguments[key] = value
        elif is_list(arguments[key]) and is_list(value):
            arguments[key] = [*arguments[key], *value]
        else:
            raise click.UsageError(f"The argument {key!r} is given twice.")
    return arguments


def read_value(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value of a text under a schema: JSON if that has an allowed type, otherwise the text."""
    types = types_of(schema, root)
    if types == _TEXT:
        return text
    try:
        value = parse(text)
    except JsonInvalidity:
        return text
    kind = _type_of(value)
    if kind in types or (kind == "integer" and "number" in types):
        return value
    # 1.0 is an integer in JSON Schema. Validation reports other wrong types.
    return text if "string" in types else value


def types_of(schema: Any, root: Mapping[str, Any], depth: int = _DEPTH) -> frozenset[str]:
    """The types that a schema allows; all of them if it does not restrict them."""
    if not is_table(schema) or depth == 0:
        return _TYPES
    types = _TYPES
    if "type" in schema:
        declared = schema["type"]
        types = frozenset({declared} if isinstance(declared, str) else declared)
    if "enum" in schema:
        types &= {_type_of(value) for value in schema["enum"]}
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        types &= types_of(_follow(reference, root), root, depth - 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            types &= frozenset[str]().union(*(types_of(one, root, depth - 1) for one in schema[keyword]))
    return types


def _follow(reference: str, root: Mapping[str, Any]) -> Any:
    """The target of a local reference, or True (a schema that allows anything)."""
    value: Any = root
    if not reference.startswith("#"):
        return True
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not is_table(value) or name not in value:
            return True
        value = value[name]
    return value


#: The JSON Schema names of simple Python types.
_NAMES: Mapping[type, str] = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}


def _type_of(value: object) -> str:
    return _NAMES.get(type(value)) or ("object" if is_table(value) else "array")


def read_object(text: str) -> dict[str, Any]:
    """The arguments of a JSON text. Errors: ``click.UsageError`` if it is not strict JSON or not an object."""
    try:
        value = parse(text)
    except JsonInvalidity as error:
        raise click.UsageError(f"--arguments is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError('--arguments must be a JSON object, such as {"path": "README.rst"}.')
    return value


_KINDS = {ImageContent: "image", AudioContent: "sound", DocumentContent: "document"}
#: Types that the table of the standard library lacks.
_ENDINGS = {"audio/wav": ".wav", "text/markdown": ".md"}


def save(result: ResultCanister, folder: pathlib.Path) -> Iterator[str]:
    """Writes the non-text contents as new files, and yields a line with the path of each.

    The numbers in the names are those of the contents in the result, from 1. Errors: ``OSError``.
    """
    for number, content in enumerate(result.content, 1):
        if not isinstance(content, ImageContent | AudioContent | DocumentContent):
            continue
        kind = _KINDS[type(content)]
        if content.data is None:
            yield f"Not saved: {kind} {number} is at {content.url}"
            continue
        yield f"Saved: {_write(folder, f'{number}-{kind}', _ending(content.mime_type), content.data)}"


def _ending(mime_type: str) -> str:
    plain = mime_type.partition(";")[0].strip().lower()
    return _ENDINGS.get(plain) or mimetypes.guess_extension(plain, strict=False) or ".bin"


def _write(folder: pathlib.Path, stem: str, ending: str, data: bytes) -> pathlib.Path:
    """Writes a new file. Replaces nothing, and follows no link."""
    path, attempt = folder / f"{stem}{ending}", 1
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            attempt += 1
            path = folder / f"{stem}-{attempt}{ending}"
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path


_JSON = "application/json"


@click.command()
@click.argument("tool", metavar="ENSEMBLE.TOOL", shell_complete=complete_tool)
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1, shell_complete=complete_argument)
@click.option(
    "--arguments", "text", metavar="JSON", help="All arguments as a JSON object; - reads it from standard input."
)
@click.option("--yes", "-y", is_flag=True, help="Approve this one call. Does not override a rule that denies it.")
@click.option(
    "--format",
    "output",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="The result as text, or all of it as JSON.",
)
@click.option(
    "--output",
    "folder",
    metavar="DIR",
    type=FOLDER,
    help="Save images, sounds and documents of the result in this folder.",
)
@journaled
@common
@pass_settings
def invoke(
    settings: Settings,
    *,
    tool: str,
    pairs: tuple[str, ...],
    text: str | None,
    yes: bool,
    output: str,
    folder: pathlib.Path | None,
) -> None:
    """Call one tool yourself.

    Values are read by the tool's schema: numbers, true and false, JSON for lists and tables, anything else as text. The
    items of a list may also follow each other: paths=a.txt paths=b.txt. A call that changes something asks at the
    terminal first, unless it is approved. The exit code is 1 if the result is an error. The journal records the call
    (ripieno journal show).

    \b
    Example:
      ripieno invoke io.read_file path=README.rst start_line=1 end_line=3
      ripieno invoke io.write_file --arguments '{"path": "a.txt", "content": "Hello"}' --yes
      ripieno invoke ENSEMBLE.TOOL --output pictures
    """
    ensemble, name = split(tool)
    if text is not None and pairs:
        raise click.UsageError("Give the arguments either as KEY=VALUE or with --arguments.")
    given = None if text is None else read_object(sys.stdin.read() if text == "-" else text)
    if folder is not None:
        # Report a folder that cannot be created before the call.
        folder.mkdir(parents=True, exist_ok=True)
    with printing_to_errors(), Terminal() as terminal:
        loaded = load_layers(settings)
        if not name:
            raise suggest_tool(tool, pairs, loaded)
        loaded = select_ensembles(loaded, [ensemble])
        confirmer = make_confirmer(terminal, yes=yes, single=True)
        called = run_async(_invoke(loaded, tool, pairs, given, confirmer), wake=terminal.react)
    if called.bug is not None and settings.debug:
        traceback.print_exception(called.bug)
    if output == "json":
        print_json(_mapping(called.result))
    # The JSON is what a model reads, so it does not contain the bug.
    if called.result.error is not None and (output == "text" or called.bug is not None):
        say(explain(called, loaded, confirmer, debug=settings.debug))
    for line in called.remarks:
        say(line)
    if output == "text":
        _print_text(called.result, advise=folder is None)
    for saved in () if folder is None else save(called.result, folder):
        say(saved)
    raise click.exceptions.Exit(exit_codes.GOOD if called.result.error is None else exit_codes.REFUSED)


async def _invoke(
    loaded: LoadedConfiguration, tool: str, pairs: Sequence[str], given: dict[str, object] | None, confirmer: Confirmer
) -> Called:
    held: dict[str | None, list[Alert]] = {}

    def alert(one: Alert) -> None:
        if one.tool in held:
            held[one.tool].append(one)
        elif one.tool in (None, tool, split(tool)[0]):
            # Alerts about other tools of the ensemble are not shown.
            say_alert(one)

    async with make_assembly(loaded, confirmer=confirmer, alert=alert) as assembly:
        invoker = assembly.access_invoker(tool)
        arguments = read_pairs(pairs, invoker.arguments_schema) if given is None else given
        invocation = InvocationCanister(identifier="call_1", name=invoker.exposed, arguments=freeze(arguments))
        renderer = Renderer(sys.stderr)

        def notify(event: Event) -> None:
            if isinstance(event, ExecutionProgress):
                renderer.show(event)

        scope = Circumstances(conversation=uuid.uuid4().hex, turn=1, notify=notify)
        held[invoker.identity] = []
        called = await _call(assembly.execution, invocation, invoker, scope)
        called = dataclasses.replace(called, remarks=unknown_arguments(arguments, called))
    # The alert of a bug is omitted, because the bug itself is explained.
    for one in held[invoker.identity] if called.bug is None else ():
        say_alert(one)
    return called


async def _call(execution: Execution, invocation: InvocationCanister, invoker: Invoker, scope: Circumstances) -> Called:
    """Runs one call by the stages of the pipeline, because the result alone does not contain the tool's exception."""
    prepared = execution.prepare(invocation, Offer.of((invoker.ensemble,)), scope)
    judged: Mapping[str, Any] = invoker.schema.complete(invocation.arguments)
    if isinstance(prepared, Prepared):
        judged = prepared.arguments
        prepared = execution.insist(await execution.confirm(prepared, scope), scope)
    call = execution.launch(prepared, scope) if isinstance(prepared, Prepared) else prepared
    if isinstance(call, ResultCanister):
        return Called(result=call, invoker=invoker, arguments=judged)
    await execution.conclude(call, scope)
    return Called(result=call.result.result(), invoker=invoker, arguments=judged, bug=call.bug)


def _mapping(result: ResultCanister) -> dict[str, object]:
    """The result as JSON, with its structured content, and with single contents that are not just text."""
    mapping = result.response_mapping()
    structures = [one.text for one in result.content if isinstance(one, TextualContent) and one.mime_type == _JSON]
    if structures:
        # It is the last one. A truncated one is no longer JSON.
        with contextlib.suppress(JsonInvalidity):
            mapping["structured"] = parse(structures[-1])
    if len(result.content) > 1 or not all(isinstance(one, TextualContent) for one in result.content):
        mapping["content"] = serialize(result)["content"]
    return mapping


def _print_text(result: ResultCanister, *, advise: bool) -> None:
    terminal = sys.stdout.isatty()
    for content in result.content:
        if isinstance(content, TextualContent):
            written = clean(content.text) if terminal else content.text
            # The next output must begin on a new line.
            sys.stdout.write(written if written.endswith("\n") or not written else f"{written}\n")
        else:
            # Keeps the order if both streams have the same target.
            sys.stdout.flush()
            say(label(content))
    if advise and not all(isinstance(one, TextualContent) for one in result.content):
        say("For contents that are not text, use --format json (base64) or --output DIR (files).")
