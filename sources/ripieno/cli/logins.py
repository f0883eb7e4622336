"""Who is signed in where, for ``ripieno doctor`` and ``ripieno login``."""

import datetime
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.configuration import Gathered
from ripieno.cli.assembling import make_assembly, say_alert
from ripieno.cli.tables import print_table
from ripieno.cli.trials import Trial
from ripieno.origins.mcp.oauth.sign_in import find_sign_in, signs_in
from ripieno.origins.mcp.oauth.tokens import SignIn


def sign_in_facts(gathered: Gathered, trials: Mapping[str, Trial]) -> list[dict[str, Any]]:
    """Each known ensemble at which a person can sign in, and whether somebody is; as JSON, and without any token."""
    signing = [one for one in gathered.known.outlines.values() if signs_in(one) is not None]
    if not signing:
        return []
    surroundings = make_assembly(gathered, alert=say_alert).surroundings
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
