"""``ripieno login`` and ``ripieno logout``: a person signs in at a server behind a URL, or is forgotten there.

Who is signed in where, for ``ripieno doctor`` and ``ripieno login``.
"""

import datetime
import os
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import load_layers, make_assembly, say_alert
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.tables import print_table
from ripieno.cli.common.terminal import is_attended
from ripieno.cli.common.trials import Trial
from ripieno.conducting.observers.console import clean
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Surroundings
from ripieno.exceptions import NameAbsence
from ripieno.origins.mcp.oauth.sign_in import (
    PATIENCE,
    SignedIn,
    SignInFailure,
    find_sign_in,
    sign_in,
    sign_out,
    signs_in,
)
from ripieno.origins.mcp.oauth.tokens import SignIn


def sign_in_facts(loaded: LoadedConfiguration, trials: Mapping[str, Trial]) -> list[dict[str, Any]]:
    """Each known ensemble at which a person can sign in, and whether somebody is; as JSON, and without any token."""
    signing = [one for one in loaded.known.outlines.values() if signs_in(one) is not None]
    if not signing:
        return []
    surroundings = make_assembly(loaded, alert=say_alert).surroundings
    facts: list[dict[str, Any]] = []
    for descriptor in signing:
        record = find_sign_in(descriptor, surroundings)
        trial = trials.get(descriptor.name)
        needless = trial is not None and trial.reason is None
        missing = "plays without a sign-in" if needless else f"run: ripieno login {descriptor.name}"
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
    """The same for people; nothing where there are none."""
    if facts:
        click.echo("\nSign-ins")
        rows = [(one["name"], one["issuer"] or _nobody(one), one["scope"] or "", one["state"]) for one in facts]
        print_table(("NAME", "ISSUER", "SCOPE", "EXPIRES"), rows)


def _nobody(fact: Mapping[str, Any]) -> str:
    return "nobody is signed in" if fact["needed"] else "not needed to start"


def expiry(record: SignIn) -> str:
    """When a sign-in is over, in words."""
    renewed = ", renewed by itself" if record.renewable else ""
    if record.expires_at is None:
        return f"not said{renewed}"
    try:
        moment = datetime.datetime.fromtimestamp(record.expires_at, datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return f"never{renewed}"
    over = "over since " if record.expires_at < time.time() and not record.renewable else ""
    return f"{over}{moment:%Y-%m-%d %H:%M} UTC{renewed}"


@click.command()
@click.argument("ensemble", metavar="ENSEMBLE")
@click.option("--no-browser", is_flag=True, help="Only print the address of the page, and open no browser.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    default=PATIENCE,
    show_default=True,
    help="How long to wait for whoever signs in.",
)
@common
@pass_settings
def login(settings: Settings, ensemble: str, no_browser: bool, timeout: float) -> None:
    """Sign in at a server behind a URL.

    The ensemble's [connection] has oauth = { grant = "authorization_code" }. The page of its authorization server is
    printed, and opened in a browser where there is one; the browser comes back to this machine. What the sign-in
    gave is kept in a file that only you can read, and renewed by itself as long as the authorization server lets
    it. The exit code is 1 when nobody signed in.

    \b
    Example:
      ripieno login github
      ripieno login github --no-browser --timeout 60
    """
    descriptor, surroundings = _find(settings, ensemble)
    opens = not no_browser and is_attended() and _has_browser()

    async def show(url: str) -> None:
        say(f"Sign in to {ensemble} on this page:\n\n  {url}\n")
        if opens:
            # Some browsers are waited for until they end, and nobody waits for that.
            threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()

    try:
        done = run_async(sign_in(descriptor, surroundings, show, patience=timeout))
    except SignInFailure as failure:
        say(f"Error: {failure}")
        raise click.exceptions.Exit(exit_codes.REFUSED) from failure
    _print(ensemble, done)


@click.command()
@click.argument("ensemble", metavar="ENSEMBLE")
@common
@pass_settings
def logout(settings: Settings, ensemble: str) -> None:
    """Forget a sign-in.

    Tokens are revoked at the authorization server where that has a place for it, and deleted here in any case.
    Ensembles with the same URL share a sign-in.

    \b
    Example:
      ripieno logout github
    """
    descriptor, surroundings = _find(settings, ensemble)
    done = run_async(sign_out(descriptor, surroundings))
    for problem in done.problems:
        say(f"Warning: {problem}")
    if not done.files:
        click.echo(clean(f"Nobody was signed in to {ensemble}."))
        return
    where = f" at {', '.join(done.issuers)}" if done.issuers else ""
    revoked = "revoked and forgotten" if done.revoked and not done.problems else "forgotten"
    click.echo(clean(f"Signed out of {ensemble}{where}: the tokens are {revoked}."))


def _find(settings: Settings, name: str) -> tuple[EnsembleDescriptor, Surroundings]:
    """Any ensemble that is known, whether it plays or not. Errors: ``NameAbsence``."""
    loaded = load_layers(settings)
    if name not in loaded.known:
        raise NameAbsence("ensemble", name, loaded.known)
    return loaded.known[name], make_assembly(loaded, alert=say_alert).surroundings


def _has_browser() -> bool:
    """Whether a browser with windows can be opened; one in the terminal would hide what is said there."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))


def _print(ensemble: str, done: SignedIn) -> None:
    record = done.sign_in
    click.echo(clean(f"Signed in to {ensemble}."))
    rows = [
        ("issuer", record.issuer),
        ("resource", record.resource),
        ("scope", record.scope or "not said"),
        ("expires", expiry(record)),
        ("tools", str(len(done.tools))),
    ]
    print_table((), rows)
