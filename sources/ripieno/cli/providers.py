"""``ripieno providers`` and ``ripieno probe``: the available models and their capabilities."""

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
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_provider
from ripieno.cli.common.layers import load_without_ensembles, require_valid
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.models import show_address, show_needs, variables_of
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.descriptors import ProviderDescriptor
from ripieno.descriptors.model_rows import ModelRow
from ripieno.exceptions import NameAbsence
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
#: What the answer to another question shows as well.
_ASIDE = {"stream_usage": "It counts tokens in a stream"}


@click.command()
@click.argument("name", required=False, shell_complete=complete_provider)
@click.option("--model", "-m", metavar="MODEL", default="", help="Show the capabilities of this model.")
@formats
@common
@pass_settings
def providers(settings: Settings, name: str | None, model: str, output: Format) -> None:
    """List the model providers and their capabilities.

    The capabilities are those in the provider's data. CALLS is "native", or "prompted" if tools are described in the
    prompt. KEY names the variable that holds the key, with a star if it is set; the first one that is set is used.
    With NAME, shows one provider, with a line for each model that differs.

    \b
    Example:
      ripieno providers
      ripieno providers NAME
      ripieno providers NAME --model some/model --format json
    """
    loaded = load_without_ensembles(settings)
    if name is not None and name not in loaded.providers:
        require_valid(loaded)
        raise NameAbsence("provider", name, loaded.providers, hint="To add one, write a table [providers.NAME].")
    chosen = loaded.providers if name is None else {name: loaded.providers[name]}
    secrets = make_assembly(loaded).surroundings.secrets
    known = {variable: bool(secrets.get(variable)) for one in chosen.values() for variable in variables_of(one)}
    if output == "json":
        print_json([_mapping(one, model, known) for one in chosen.values()])
    else:
        _print(chosen, name, model, known)
    require_valid(loaded)


def _print(chosen: Mapping[str, ProviderDescriptor], name: str | None, model: str, known: Mapping[str, bool]) -> None:
    rows: list[tuple[str, ...]] = []
    for descriptor in chosen.values():
        keys = show_needs(descriptor, known) or "-"
        rows.append(_row(descriptor.name, descriptor, descriptor.capabilities_for(model), keys))
        if name is not None and not model:
            for row in descriptor.models:
                label = f"  {row.match}"
                rows.append(_row(label, descriptor, {**descriptor.capabilities_for(""), **row.capabilities}, keys))
    print_table(("PROVIDER", "PROTOCOL", "CALLS", *_COLUMNS, "KEY"), rows)


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
    """Test the capabilities of a model with ten small requests.

    Each request may use up to 300 tokens. Results go to standard error as they are found. Standard output is the
    table for your configuration.

    \b
    Example:
      ripieno probe house/small
      ripieno probe house/large >> ~/.config/ripieno/config.toml
    """
    loaded = load_without_ensembles(settings)
    require_valid(loaded)
    settled, findings = run_async(_probe(make_assembly(_natively(loaded, model)), model))
    if output == "json":
        rows = [{"question": one.question, "holds": one.holds, "note": one.note} for one in findings]
        print_json({"model": model, "findings": rows, "capabilities": settled})
        return
    provider, _, name = model.partition("/")
    _say_differences(loaded.providers[provider], name, settled)
    _say_earlier_row(loaded, provider, name)
    # Only the first matching row is used, so the new one includes what the old one has.
    row = {"match": _escaped(name), **loaded.providers[provider].row_for(name), **settled}
    print(tomli_w.dumps({"providers": {provider: {"models": [row]}}}), end="")


def _natively(loaded: LoadedConfiguration, model: str) -> LoadedConfiguration:
    """The configuration without ensembles, in which the model is asked over its provider's own wire."""
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

    def report(finding: Finding) -> None:
        findings.append(finding)
        say(f"{_word(finding.holds)}  {finding.question}{f': {finding.note}' if finding.note else ''}")
        for capability, statement in _ASIDE.items():
            if capability in finding.capabilities:
                say(f"{_word(finding.capabilities[capability])}  {statement}")

    async with assembly:
        return await ask_everything(assembly.access_model(model), report), findings


def _word(holds: bool) -> str:
    return "yes" if holds else "no "


def _say_differences(descriptor: ProviderDescriptor, name: str, settled: Mapping[str, Any]) -> None:
    known = descriptor.capabilities_for(name)
    for capability, value in settled.items():
        if known.get(capability, value) != value:
            was, found = (json.dumps(one) for one in (known[capability], value))
            say(f"{capability}: {was} in the data of {descriptor.name}, {found} in this probe.")


def _say_earlier_row(loaded: LoadedConfiguration, provider: str, name: str) -> None:
    """Reports a configured row that would be used instead of the printed one, if that is appended."""
    for row in loaded.configuration.providers.get(provider, EMPTY).get("models", ()):
        if fnmatch.fnmatchcase(name, row["match"]):
            say(
                f'Put the new row before the row match = "{row["match"]}" of [[providers.{provider}.models]], which '
                "matches, too: only the first match is used."
            )
            return


def _escaped(name: str) -> str:
    """The name as a pattern that matches only it."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
