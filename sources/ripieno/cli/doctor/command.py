"""``ripieno doctor``: layers, trust, plugins, providers, ensembles and their failures in one place."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.availability import how_to_include
from ripieno.canisters.display import brief, clean, count
from ripieno.cli.common import exit_codes
from ripieno.cli.common.layers import load_layers, project_of, require_valid
from ripieno.cli.common.main import advised, run_async
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.common.trials import try_ensembles
from ripieno.cli.doctor.facts import collect_facts, policy_facts
from ripieno.cli.doctor.journal import journal_line
from ripieno.cli.doctor.queue import queue_line
from ripieno.cli.trust.login import print_sign_ins, sign_in_facts
from ripieno.models.transport.cloud_names import HOMES


@click.command()
@click.option("--connect/--no-connect", default=True, show_default=True, help="Try to connect each enabled ensemble.")
@click.option("--full", is_flag=True, help="Show all of each section, not only what needs attention.")
@click.option("--policy", is_flag=True, help="Show only the policy of each tool: whether it runs, asks or is denied.")
@formats
@common
@pass_settings
def doctor(settings: Settings, connect: bool, full: bool, policy: bool, output: Format) -> None:
    """Show the state of everything that is configured.

    Shows one line for each section, and what needs attention.

    Connects all ensembles at once, and disconnects them at the end; no model is asked. The exit code is 2 if a start
    would fail. With --policy, CALLS is "depends" if the arguments of a call decide.

    \b
    Example:
      ripieno doctor
      ripieno doctor --full
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
        _print(facts, connected=connect, full=full)
    if facts["failures"]:
        raise click.exceptions.Exit(exit_codes.INPUT)


def _print(facts: Mapping[str, Any], *, connected: bool, full: bool) -> None:
    ensembles: Sequence[Mapping[str, Any]] = facts["ensembles"]
    sandbox, plugins, pinned = facts["sandbox"], facts["plugins"], [one for one in ensembles if one["pins"] is not None]
    connections = [one for one in ensembles if one["connection"] is not None]
    if full:
        _print_foundations(facts)
    else:
        print_table((), _summary(facts, connected=connected))
        sandbox = sandbox and {key: sandbox[key] for key in ("missing", "warnings")}
        plugins = [one for one in plugins if not one["allowed"] or one["state"] != "enabled"]
        pinned = [one for one in pinned if one["pins"]["advice"] or one["pins"]["state"] == "unreadable"]
    _table("Sandbox", (), [] if sandbox is None else _sandbox_rows(sandbox))
    if full:
        _print_providers(facts["providers"])
    _table(
        "Ensembles" if full else "Ensembles that need attention",
        ("NAME", "READY" if connected else "ENABLED", "TOOLS", "LAYER", "DESCRIPTION"),
        [_ensemble(one) for one in ensembles if full or one["failed"] or one["alerts"]],
    )
    if full and any(one["ready"] is False and not one["failed"] and one["available"] for one in ensembles):
        click.echo(clean(how_to_include("NAME")))
    for one in ensembles:
        # The table has the first line only. Failures of required ensembles are at the end.
        lines = (one["reason"] or "").splitlines() if one["failed"] and not one["required"] else []
        _list(f"Why {one['name']} does not start", lines if len(lines) > 1 else [])
    absent = [f"{name}, for {one['name']}" for one in ensembles for name in one["absent_variables"]]
    _list("Variables that are not set", absent)
    left_out = [f"{one['name']}.{tool}: {why}." for one in ensembles for tool, why in one["left_out"].items()]
    _list("Unavailable tools", left_out)
    if full:
        headers = ("NAME", "TRANSPORT", "PROTOCOL", "ERA", "SERVER", "SECONDS")
        rows = [_connection(one["name"], one["connection"], one["seconds"]) for one in connections]
        _table("Connections", headers, rows)
        for one in connections:
            _list(f"Last lines of the standard error of {one['name']}", one["connection"].get("complaints", ()))
    _table("Pins", ("NAME", "PIN", "STATE", "NEXT COMMAND"), [_pin(one["name"], one["pins"]) for one in pinned])
    print_sign_ins([one for one in facts["sign_ins"] if full or (one["needed"] and not one["signed_in"])])
    rows = [(one["name"], f"{one['distribution']} {one['version']}", one["state"]) for one in plugins]
    _table("Plugins", ("NAME", "DISTRIBUTION", "STATE"), rows)
    _list("Not loaded", [f"{one['name']} ({one['file']}): {one['reason']}" for one in facts["left_out"]])
    if full:
        _list("Replaced", [f"{one['name']} ({one['file']}) by {one['by']}" for one in facts["replaced"]])
    _list("Warnings", facts["warnings"])
    _list("Failures that prevent a start", facts["failures"])
    lost = ", ".join(one["name"] for one in ensembles if one["failed"])
    click.echo("" if full else advised("\nAll of each section: ripieno doctor --full"))
    if not facts["failures"]:
        good = f"Everything required can start. Optional ensembles that cannot: {lost}."
        click.echo(clean(good if lost else "Everything can start."))


def _summary(facts: Mapping[str, Any], *, connected: bool) -> list[tuple[str, str]]:
    """One line for each section that has something."""
    ensembles, configuration, project = facts["ensembles"], facts["configuration"], facts["project"]
    layers = [one["name"] + ("" if one["trusted"] else " (not trusted)") for one in facts["layers"]]
    package = tuple(f"{folder}/" for one in facts["layers"] if one["name"] == "package" for folder in one["folders"])
    ready = [one["name"] for one in ensembles if one["ready"]]
    usable = [one["name"] for one in facts["providers"] if one["ready"] and not one["credentials"]]
    rows = [
        ("Versions", ", ".join(f"{name} {facts['versions'][name]}" for name in ("ripieno", "python", "system"))),
        *((name.capitalize(), path) for name, path in facts["places"].items()),
        ("Journal", journal_line(facts["journal"])),
        ("Queue", queue_line(facts["queue"])),
        ("Layers", ", ".join(layers)),
        ("Files", ", ".join(one for one in configuration["files"] if not one.startswith(package)) or "none of yours"),
        ("Model", _model(configuration)),
        ("Project", "" if project is None else _project(project)),
        ("Sandbox", "" if facts["sandbox"] is None else facts["sandbox"]["name"]),
        ("Providers", f"{len(facts['providers'])}; with a key, or without need of one: {', '.join(usable) or 'none'}"),
        ("Ensembles", f"{len(ensembles)}; {'ready' if connected else 'enabled'}: {', '.join(ready) or 'none'}"),
        ("Connections", ", ".join(one["name"] for one in ensembles if one["connection"] is not None)),
        ("Pins", ", ".join(f"{one['name']} ({one['pins']['state']})" for one in ensembles if one["pins"] is not None)),
        ("Sign-ins", ", ".join(one["name"] for one in facts["sign_ins"] if one["signed_in"])),
        ("Plugins", ", ".join(one["name"] for one in facts["plugins"])),
    ]
    return [(name, text) for name, text in rows if text]


def _model(configuration: Mapping[str, Any]) -> str:
    return configuration["model"] or "none; set default under [model], or use -m"


def _project(project: Mapping[str, Any]) -> str:
    return f"{project['folder']}: {project['trust']}, {count(len(project['files']), 'file')}"


def _print_foundations(facts: Mapping[str, Any]) -> None:
    for title in ("versions", "places"):
        _table(title.capitalize(), (), list(facts[title].items()))
    layers = [
        (one["name"] + ("" if one["trusted"] else " (not trusted)"), ", ".join(one["folders"]))
        for one in facts["layers"]
    ]
    _table("Layers (each overrides the one before it)", ("LAYER", "FOLDERS"), layers)
    configuration, project = facts["configuration"], facts["project"]
    click.echo(clean(f"Configuration: {', '.join(configuration['files']) or 'none'}"))
    click.echo(clean(f"Model: {_model(configuration)}"))
    click.echo(clean(f"Journal: {journal_line(facts['journal'])}"))
    if facts["queue"] is not None:
        click.echo(clean(f"Queue: {queue_line(facts['queue'])}"))
    if project is not None:
        click.echo(clean(f"Project {_project(project)}"))


def _print_providers(providers: Sequence[Mapping[str, Any]]) -> None:
    rows = [(one["name"], one["protocol"], _keys(one), one["base_url"] or _cloud_address(one)) for one in providers]
    _table("Providers", ("NAME", "PROTOCOL", "KEY", "BASE URL"), rows)


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
    """The given facts of the sandbox: its tier, the contents, and why no higher tier is available."""
    rows = [("level", facts["level"]), ("tier", facts["name"])] if "name" in facts else []
    if facts.get("reason"):
        rows.append(("higher tier", facts["reason"]))
    if facts["missing"]:
        rows.append(("tools that need a sandbox", f"not offered: {facts['missing']}"))
    if "network" in facts:
        rows += [("network", facts["network"]), ("limits", _limits(facts))]
    rows += [(name, ", ".join(facts[name])) for name in ("readable", "writable") if facts.get(name)]
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
