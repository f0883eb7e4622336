"""``ripieno doctor``: layers, trust, plugins, providers, ensembles and their failures in one place."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import how_to_include, load_layers, project_of, require_valid
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import count, print_json, print_table
from ripieno.cli.common.trials import try_ensembles
from ripieno.cli.doctor.facts import collect_facts, policy_facts
from ripieno.cli.trust.login import print_sign_ins, sign_in_facts
from ripieno.conducting.observers.console import brief, clean
from ripieno.models.transport.clouds import HOMES


@click.command()
@click.option("--connect/--no-connect", default=True, show_default=True, help="Try to connect each enabled ensemble.")
@click.option("--policy", is_flag=True, help="Show only the policy of each tool: whether it runs, asks or is denied.")
@formats
@common
@pass_settings
def doctor(settings: Settings, connect: bool, policy: bool, output: Format) -> None:
    """Show the state of everything that is configured.

    Connects all ensembles at once, and disconnects them at the end; no model is asked. The exit code is 2 if a start
    would fail. With --policy, CALLS is "depends" if the arguments of a call decide.

    \b
    Example:
      ripieno doctor
      ripieno doctor --policy
      ripieno doctor --no-connect --format json
    """
    loaded = load_layers(settings, quiet=True)
    trials = run_async(try_ensembles(loaded)) if connect else {}
    if policy:
        require_valid(loaded)  # Unreadable rules apply to no tool.
        policies = policy_facts(loaded, trials)
        if output == "json":
            print_json(policies)
        else:
            _print_policy(policies)
        return
    project = project_of(settings)
    facts = {**collect_facts(loaded, project, trials), "sign_ins": sign_in_facts(loaded, trials)}
    if output == "json":
        print_json(facts)
    else:
        _print(facts, connected=connect)
    if facts["failures"]:
        raise click.exceptions.Exit(exit_codes.INPUT)


def _print(facts: Mapping[str, Any], *, connected: bool) -> None:
    ensembles: Sequence[Mapping[str, Any]] = facts["ensembles"]
    for title in ("versions", "places"):
        _table(title.capitalize(), (), list(facts[title].items()))
    _print_layers(facts)
    _table("Sandbox", (), [] if facts["sandbox"] is None else _sandbox_rows(facts["sandbox"]))
    providers = [
        (one["name"], one["protocol"], _keys(one), one["base_url"] or _cloud_address(one)) for one in facts["providers"]
    ]
    _table("Providers", ("NAME", "PROTOCOL", "KEY", "BASE URL"), providers)
    _table(
        "Ensembles",
        ("NAME", "READY" if connected else "ENABLED", "TOOLS", "LAYER", "DESCRIPTION"),
        [_ensemble(one) for one in ensembles],
    )
    if any(one["ready"] is False and not one["failed"] and one["available"] for one in ensembles):
        click.echo(clean(how_to_include("NAME")))
    for one in ensembles:
        # The table has the first line only. Failures of required ensembles are at the end.
        lines = (one["reason"] or "").splitlines() if one["failed"] and not one["required"] else []
        _list(f"Why {one['name']} does not start", lines if len(lines) > 1 else [])
    absent = [f"{name}, for {one['name']}" for one in ensembles for name in one["absent_variables"]]
    _list("Variables that are not set", absent)
    left_out = [f"{one['name']}.{tool}: {why}." for one in ensembles for tool, why in one["left_out"].items()]
    _list("Unavailable tools", left_out)
    connections = [one for one in ensembles if one["connection"] is not None]
    headers = ("NAME", "TRANSPORT", "PROTOCOL", "ERA", "SERVER", "SECONDS")
    _table("Connections", headers, [_connection(one["name"], one["connection"], one["seconds"]) for one in connections])
    for one in connections:
        _list(f"Last lines of the standard error of {one['name']}", one["connection"].get("complaints", ()))
    pins = [_pin(one["name"], one["pins"]) for one in ensembles if one["pins"] is not None]
    _table("Pins", ("NAME", "PIN", "STATE", "NEXT COMMAND"), pins)
    print_sign_ins(facts["sign_ins"])
    plugins = [(one["name"], f"{one['distribution']} {one['version']}", one["state"]) for one in facts["plugins"]]
    _table("Plugins", ("NAME", "DISTRIBUTION", "STATE"), plugins)
    _list("Not loaded", [f"{one['name']} ({one['file']}): {one['reason']}" for one in facts["left_out"]])
    _list("Replaced", [f"{one['name']} ({one['file']}) by {one['by']}" for one in facts["replaced"]])
    _list("Warnings", facts["warnings"])
    _list("Failures that prevent a start", facts["failures"])
    lost = ", ".join(one["name"] for one in ensembles if one["failed"])
    if not facts["failures"]:
        good = f"Everything required can start. Optional ensembles that cannot: {lost}."
        click.echo(clean(f"\n{good if lost else 'Everything can start.'}"))


def _print_layers(facts: Mapping[str, Any]) -> None:
    layers = [
        (one["name"] + ("" if one["trusted"] else " (not trusted)"), ", ".join(one["folders"]))
        for one in facts["layers"]
    ]
    _table("Layers (each overrides the one before it)", ("LAYER", "FOLDERS"), layers)
    configuration, project = facts["configuration"], facts["project"]
    click.echo(clean(f"Configuration: {', '.join(configuration['files']) or 'none'}"))
    click.echo(clean(f"Model: {configuration['model'] or 'none; set default under [model], or use -m'}"))
    if project is not None:
        click.echo(clean(f"Project {project['folder']}: {project['trust']}, {len(project['files'])} files"))


def _ensemble(one: Mapping[str, Any]) -> Sequence[str]:
    about = one["reason"] if one["failed"] or not one["available"] else one["description"]
    why = "; ".join(text for text in (about, *one["alerts"]) if text)
    tools = "" if one["tools"] is None else str(one["tools"])
    return one["name"], "yes" if one["ready"] else "no", tools, one["layer"], brief(why, 1000)


def _keys(provider: Mapping[str, Any]) -> str:
    known = [f"{name} is {'set' if known else 'not set'}" for name, known in provider["variables"].items()]
    return ", ".join([*known, *(["credentials of its cloud"] if provider["credentials"] else [])]) or "none needed"


def _cloud_address(provider: Mapping[str, Any]) -> str:
    return f"default of {provider['cloud']}" if provider["cloud"] in HOMES else "missing"


def _connection(name: str, facts: Mapping[str, Any], seconds: float) -> Sequence[str]:
    shown = (str(facts.get(key, "")) for key in ("transport", "protocol", "era", "server"))
    return name, *shown, f"{seconds:.2f}"


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        click.echo(f"\n{title}")
        print_table(headers, rows)


def _list(title: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo(f"\n{title}")
        for line in lines:
            click.echo(clean(textwrap.indent(line, "  ")))


def _sandbox_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sandbox: its tier, the contents, and why no higher tier is available."""
    rows = [("level", facts["level"]), ("tier", facts["name"])]
    if facts["reason"]:
        rows.append(("higher tier", facts["reason"]))
    if facts["missing"]:
        rows.append(("tools that need a sandbox", f"not offered: {facts['missing']}"))
    rows += [("network", facts["network"]), ("limits", _limits(facts))]
    rows += [(name, ", ".join(facts[name])) for name in ("readable", "writable") if facts[name]]
    return rows + [("warning", text) for text in facts["warnings"]]


def _limits(facts: Mapping[str, Any]) -> str:
    memory = f"{facts['memory'] / 2**20:,.0f} MiB of memory"
    if not facts["counted"]:
        return f"{memory} for each process; this system does not let them be added up"
    return f"{memory} for all programs together, {facts['processes']:,} processes for each program"


def _pin(name: str, facts: Mapping[str, Any]) -> Sequence[str]:
    recorded = facts["recorded"]
    pinned = "" if recorded is None else f"pinned {count(recorded, 'tool')}"
    differences = [f"{kind}: {', '.join(facts[kind])}" for kind in ("changed", "new", "gone") if facts[kind]]
    if facts["command"] != "same":
        differences.insert(0, f"the command is {facts['command']}")
    words = {
        "off": "not compared",
        "unreadable": str(facts["reason"]),
        "not pinned": "not pinned",
        "not compared": f"{pinned}, not compared",
    }
    how = words.get(facts["state"], pinned)
    return name, facts["mode"], brief("; ".join((how, *differences)), 1000), facts["advice"] or ""


def _print_policy(facts: Mapping[str, Any]) -> None:
    rows = [(one["tool"], one["effect"], one["action"], one["reason"]) for one in facts["tools"]]
    print_table(("TOOL", "EFFECT", "CALLS", "WHY"), rows)
    lists: Mapping[str, Sequence[str]] = facts["confirmation"]
    rules = "; ".join(f"{name}: {', '.join(patterns)}" for name, patterns in lists.items() if patterns)
    click.echo(clean(f"\n[confirmation] {rules or 'has no rules'}"))
    for failure in facts["failures"]:
        click.echo(clean(f"Not connected: {failure}"))
