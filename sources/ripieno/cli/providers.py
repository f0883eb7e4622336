"""``ripieno providers`` and ``ripieno probe``: which models there may be, and what they can do."""

import dataclasses
import fnmatch
import json
from collections.abc import Mapping
from typing import Any

import click
import tomli_w
from frozendict import frozendict

from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.assembly import load_layers, make_assembly
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.models import show_address, show_needs, variables_of
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.descriptors import ProviderDescriptor
from ripieno.descriptors.model_rows import ModelRow
from ripieno.exceptions import AssemblyFailure, NameAbsence
from ripieno.jsonvalues import EMPTY
from ripieno.models.probe import Finding
from ripieno.models.probe import probe as ask_everything

#: The columns of seed 000, section 4.1, and those that users ask for.
_COLUMNS = {
    "PARALLEL": "parallel_calls",
    "STREAMING": "streaming",
    "JSON": "json_mode",
    "CHOICE": "tool_choice",
    "STRICT": "strict",
    "IMAGES IN RESULTS": "images_in_results",
}
#: What a question shows beside the answer to it.
_ASIDE = {"stream_usage": "It counts tokens in a stream"}


@click.command()
@click.argument("name", required=False)
@click.option("--model", "-m", metavar="MODEL", default="", help="What this model can do, where rows of data know it.")
@formats
@common
@pass_settings
def providers(settings: Settings, name: str | None, model: str, output: Format) -> None:
    """List the providers of models, and what each can do as far as its data says.

    CALLS are native, or prompted: described to the model in words. KEY names the variable that has the key, with a
    star where it is set; the first that is set counts. A NAME shows one provider, with a line for each of its models
    that differs.

    \b
    Example:
      ripieno providers
      ripieno providers NAME
      ripieno providers NAME --model some/model --format json
    """
    loaded = load_layers(settings)
    if loaded.failures:
        raise AssemblyFailure("Start-up would fail:", loaded.failures)
    chosen = _choose(loaded, name)
    secrets = make_assembly(loaded).surroundings.secrets
    known = {variable: bool(secrets.get(variable)) for one in chosen.values() for variable in variables_of(one)}
    if output == "json":
        print_json([_mapping(one, model, known) for one in chosen.values()])
        return
    rows: list[tuple[str, ...]] = []
    for descriptor in chosen.values():
        keys = show_needs(descriptor, known) or "-"
        rows.append(_row(descriptor.name, descriptor, descriptor.capabilities_for(model), keys))
        if name is not None and not model:
            for row in descriptor.models:
                label = f"  {row.match}"
                rows.append(_row(label, descriptor, {**descriptor.capabilities_for(""), **row.capabilities}, keys))
    print_table(("PROVIDER", "PROTOCOL", "CALLS", *_COLUMNS, "KEY"), rows)


def _choose(loaded: LoadedConfiguration, name: str | None) -> Mapping[str, ProviderDescriptor]:
    if name is None:
        return loaded.providers
    if name not in loaded.providers:
        raise NameAbsence("provider", name, loaded.providers, hint="Add one as a table [providers.NAME].")
    return {name: loaded.providers[name]}


def _row(label: str, descriptor: ProviderDescriptor, capabilities: Mapping[str, Any], keys: str) -> tuple[str, ...]:
    words = ("yes" if capabilities.get(key) else "no" for key in _COLUMNS.values())
    calls = "native" if capabilities["function_calling"] else "prompted"
    return (label, descriptor.protocol, calls, *words, keys)


def _mapping(descriptor: ProviderDescriptor, model: str, known: Mapping[str, bool]) -> dict[str, Any]:
    return {
        "name": descriptor.name,
        "description": descriptor.description,
        "protocol": descriptor.protocol,
        "base_url": descriptor.base_url and show_address(descriptor.base_url),
        "variables": {variable: known[variable] for variable in variables_of(descriptor)},
        "model": model or None,
        "capabilities": descriptor.capabilities_for(model),
        "models": [{"match": row.match, **row.capabilities} for row in descriptor.models],
        "layer": descriptor.layer,
        "file": descriptor.file,
    }


@click.command()
@click.argument("model", metavar="PROVIDER/MODEL")
@formats
@common
@pass_settings
def probe(settings: Settings, model: str, output: Format) -> None:
    """Find out what a model can do, by asking it ten small questions; each may cost up to 300 tokens.

    What holds goes to standard error as it is found. Standard output gets the table for your configuration.

    \b
    Example:
      ripieno probe house/small
      ripieno probe house/large >> ~/.config/ripieno/config.toml
    """
    loaded = load_layers(settings)
    if loaded.failures:
        raise AssemblyFailure("Start-up would fail:", loaded.failures)
    settled, findings = run_async(_probe(make_assembly(_natively(loaded, model)), model))
    if output == "json":
        rows = [{"question": one.question, "holds": one.holds, "note": one.note} for one in findings]
        print_json({"model": model, "findings": rows, "capabilities": settled})
        return
    provider, _, name = model.partition("/")
    _say_differences(loaded.providers[provider], name, settled)
    _say_earlier_row(loaded, provider, name)
    # What is known beside is not lost: of two rows only the first holds.
    row = {"match": _escaped(name), **loaded.providers[provider].row_for(name), **settled}
    print(tomli_w.dumps({"providers": {provider: {"models": [row]}}}), end="")


def _natively(loaded: LoadedConfiguration, model: str) -> LoadedConfiguration:
    """The same without ensembles; the model is asked over its provider's own wire, whatever the data says of calls."""
    provider, _, name = model.partition("/")
    providers = dict(loaded.providers)
    if provider in providers:
        descriptor = providers[provider]
        asked = {"function_calling": True, "text_calls": False}
        known: frozendict[str, Any] = frozendict({**descriptor.capabilities_for(name), **asked})
        row = ModelRow(match=_escaped(name), capabilities=known)
        providers[provider] = dataclasses.replace(descriptor, models=(row, *descriptor.models))
    return dataclasses.replace(loaded, ensembles=(), providers=providers)


async def _probe(assembly: Assembly, model: str) -> tuple[dict[str, Any], list[Finding]]:
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        say(f"{_word(finding.holds)}  {finding.question}{f': {finding.note}' if finding.note else ''}")
        for capability, statement in _ASIDE.items():
            if capability in finding.capabilities:
                say(f"{_word(finding.capabilities[capability])}  {statement}")

    async with assembly:
        return await ask_everything(assembly.access_model(model), found), findings


def _word(holds: bool) -> str:
    return "yes" if holds else "no "


def _say_differences(descriptor: ProviderDescriptor, name: str, settled: Mapping[str, Any]) -> None:
    """What the data says otherwise."""
    known = descriptor.capabilities_for(name)
    for capability, value in settled.items():
        if known.get(capability, value) != value:
            was, found = (json.dumps(one) for one in (known[capability], value))
            say(f"The data of {descriptor.name} says {capability} = {was}. The probe found otherwise: {found}.")


def _say_earlier_row(loaded: LoadedConfiguration, provider: str, name: str) -> None:
    """Where a row of the configuration would hold instead of what is printed, should that be appended."""
    for row in loaded.configuration.providers.get(provider, EMPTY).get("models", ()):
        if fnmatch.fnmatchcase(name, row["match"]):
            say(
                f'The first row that matches holds, and match = "{row["match"]}" of [[providers.{provider}.models]] '
                "does: put the new row before it."
            )
            return


def _escaped(name: str) -> str:
    """The name as a pattern that matches it alone."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
