"""``ripieno login`` and ``ripieno logout``: sign-ins at MCP servers. Also the state of sign-ins for ``doctor``."""

import datetime
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters.display import clean
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_ensemble
from ripieno.cli.common.ensembles import say_alert
from ripieno.cli.common.layers import load_layers, require_valid
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.tables import print_table
from ripieno.cli.common.terminal import has_browser, is_attended, open_page
from ripieno.cli.common.trials import Trial
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Surroundings
from ripieno.exceptions import NameAbsence
from ripieno.origins.mcp.oauth.sign_in import (
    PATIENCE,
    SignInFailure,
    find_sign_in,
    sign_in,
    sign_out,
    signs_in,
)
from ripieno.origins.mcp.oauth.tokens import SignIn


def sign_in_facts(loaded: LoadedConfiguration, trials: Mapping[str, Trial]) -> list[dict[str, Any]]:
    """The state of each sign-in that an ensemble supports, as JSON, without any token."""
    signing = [one for one in loaded.known.outlines.values() if signs_in(one) is not None]
    if not signing:
        return []
    surroundings = make_assembly(loaded, alert=say_alert).surroundings
    facts: list[dict[str, Any]] = []
    for descriptor in signing:
        record = find_sign_in(descriptor, surroundings)
        trial = trials.get(descriptor.name)
        needless = trial is not None and trial.reason is None
        missing = "works without a sign-in" if needless else f"run: ripieno login {descriptor.name}"
        facts.append(
            {
                "name": descriptor.name,
                "signed_in": record is not None,
                "needed": not needless,
                "issuer": None if record is None else record.issuer,
                "resource": None if record is None else record.resource,
                "scope": None if record is None else record.scope,
                "expires_at": None if record is None else record.expires_at,
                "state": missing if record is None else expiry(record),
            }
        )
    return facts


def print_sign_ins(facts: Sequence[Mapping[str, Any]]) -> None:
    """Prints the state of the sign-ins, if there are any."""
    if facts:
        click.echo("\nSign-ins")
        absences = {True: "not signed in", False: "not needed to start"}
        rows = [
            (one["name"], one["issuer"] or absences[one["needed"]], one["scope"] or "", one["state"]) for one in facts
        ]
        print_table(("NAME", "ISSUER", "SCOPE", "EXPIRES"), rows)


def expiry(record: SignIn) -> str:
    """The end of a sign-in, in words."""
    renewed = ", renewed automatically" if record.renewable else ""
    if record.expires_at is None:
        return f"unknown{renewed}"
    try:
        moment = datetime.datetime.fromtimestamp(record.expires_at, datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return f"never{renewed}"
    over = "expired " if record.expires_at < time.time() and not record.renewable else ""
    return f"{over}{moment:%Y-%m-%d %H:%M} UTC{renewed}"


@click.command()
@click.argument("ensemble", metavar="ENSEMBLE", shell_complete=complete_ensemble)
@click.option("--no-browser", is_flag=True, help="Print the address of the page, and open no browser.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    default=PATIENCE,
    show_default=True,
    help="How long to wait for the sign-in.",
)
@common
@pass_settings
def login(settings: Settings, ensemble: str, no_browser: bool, timeout: float) -> None:
    """Sign in to an MCP server.

    The [connection] of ENSEMBLE must have oauth = { grant = "authorization_code" }. The page of its authorization
    server is printed, and opened in a browser if there is one; the browser returns to this machine. The tokens are
    stored in a file that only you can read, and renewed as long as the authorization server allows. The exit code is
    1 if no one signs in.

    \b
    Example:
      ripieno login github
      ripieno login github --no-browser --timeout 60
    """
    descriptor, surroundings = _find(settings, ensemble)
    opens = not no_browser and is_attended() and has_browser()

    async def show(url: str) -> None:
        say(f"Sign in to {ensemble} on this page:\n\n  {url}\n")
        if opens:
            open_page(url)

    try:
        done = run_async(sign_in(descriptor, surroundings, show, patience=timeout))
    except SignInFailure as failure:
        say(f"Error: {failure}")
        raise click.exceptions.Exit(exit_codes.REFUSED) from failure
    record = done.sign_in
    click.echo(clean(f"Signed in to {ensemble}."))
    rows = [
        ("issuer", record.issuer),
        ("resource", record.resource),
        ("scope", record.scope or "unknown"),
        ("expires", expiry(record)),
        ("tools", str(len(done.tools))),
    ]
    print_table((), rows)


@click.command()
@click.argument("ensemble", metavar="ENSEMBLE", shell_complete=complete_ensemble)
@common
@pass_settings
def logout(settings: Settings, ensemble: str) -> None:
    """Sign out of an MCP server.

    Deletes the tokens, and revokes them if the authorization server supports that. Ensembles with the same URL share a
    sign-in.

    \b
    Example:
      ripieno logout github
    """
    descriptor, surroundings = _find(settings, ensemble)
    done = run_async(sign_out(descriptor, surroundings))
    for problem in done.problems:
        say(f"Warning: {problem}")
    if not done.files:
        click.echo(clean(f"You were not signed in to {ensemble}."))
        return
    where = f" at {', '.join(done.issuers)}" if done.issuers else ""
    revoked = "revoked and deleted" if done.revoked and not done.problems else "deleted"
    click.echo(clean(f"Signed out of {ensemble}{where}: the tokens are {revoked}."))


def _find(settings: Settings, name: str) -> tuple[EnsembleDescriptor, Surroundings]:
    loaded = load_layers(settings)
    if name not in loaded.known:
        require_valid(loaded)
        raise NameAbsence("ensemble", name, loaded.known)
    return loaded.known[name], make_assembly(loaded, alert=say_alert).surroundings
