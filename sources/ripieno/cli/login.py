"""``ripieno login`` and ``ripieno logout``: a person signs in at a server behind a URL, or is forgotten there."""

import os
import sys
import threading
import webbrowser

import click

from ripieno.cli import exits
from ripieno.cli.assembling import gather_layers, make_assembly, say_alert
from ripieno.cli.logins import expiry
from ripieno.cli.running import run_async, say
from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.cli.tables import print_table
from ripieno.cli.terminal import is_attended
from ripieno.conducting.observers.console import clean
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Surroundings
from ripieno.exceptions import NameAbsence
from ripieno.origins.mcp.oauth.sign_in import PATIENCE, SignedIn, SignInFailure, sign_in, sign_out


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
        raise click.exceptions.Exit(exits.REFUSED) from failure
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
    gathered = gather_layers(settings)
    if name not in gathered.known:
        raise NameAbsence("ensemble", name, gathered.known)
    return gathered.known[name], make_assembly(gathered, alert=say_alert).surroundings


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
