"""``ripieno responses``: what a gateway has stored for its callers, and how to erase all of one caller."""

import os
import shlex

import click

from ripieno.assembly.deletion import delete_conversation
from ripieno.assembly.journal import open_database, open_journal
from ripieno.canisters.display import clean, count
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.main import confirm_loss, say
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.conducting.paused import PausedStore
from ripieno.exceptions import Conflict, NameAbsence
from ripieno.servers.gateway.stored.requests import RESPONSE, is_identifier
from ripieno.storage.responses.caller_keys import callers_with_keys
from ripieno.storage.responses.store import callers_in, count_answered
from ripieno.storage.responses.store import forget as erase

#: Callers without a key, as they are listed.
_KEYLESS = "(without a key)"


@click.group()
@common
def responses() -> None:
    """List and erase what a gateway has stored for its callers.

    \b
    Example:
      ripieno responses list
      ripieno responses forget laptop
    """


@responses.command("list")
@formats
@common
@pass_settings
def list_(settings: Settings, output: Format) -> None:
    """List the callers with stored responses.

    \b
    Example:
      ripieno responses list
      ripieno responses list --config gateway.toml --format json
    """
    database = open_database(load_layers(settings, quiet=True), os.environ)
    callers = callers_in(database)
    known = callers_with_keys(database)
    lost = [caller for caller, _, _ in callers if caller not in known]
    database.close()
    if output == "json":
        print_json([{"caller": caller, "responses": rows, "bytes": size} for caller, rows, size in callers])
    elif not callers:
        click.echo(f"No response is stored in {database.name}.")
    else:
        rows = [[clean(caller) or _KEYLESS, str(rows), f"{size:,}"] for caller, rows, size in callers]
        print_table(["CALLER", "RESPONSES", "BYTES"], rows)
    if lost:
        names = ", ".join(clean(caller) or _KEYLESS for caller in lost)
        say(
            f"! The responses of these callers cannot be read, because their keys are not there: {names}. Was the "
            "database restored without the table caller_keys, or the file caller-keys.sqlite3? Stop the gateways, and "
            "restore it from its own backup. If there is none, erase what is left: "
            f"ripieno responses forget {shlex.quote(lost[0])}"
        )


@responses.command()
@click.argument("caller")
@click.option("--yes", is_flag=True, help="Erase without asking.")
@common
@pass_settings
def forget(settings: Settings, caller: str, *, yes: bool) -> None:
    """Erase all responses and conversations of a caller, and the key that decrypts them.

    Copies of the database that do not have the key cannot be read any more: keep no copy of caller-keys.sqlite3, or of
    the table caller_keys. What the journal has of the caller's conversations, and those that wait for a person, are
    erased, too. '' names those without a key: of them, the journal keeps requests that were not stored, as it does your
    own calls. While one of their responses is answered, or another process conducts one of their conversations, nothing
    is erased: it would be written anew.

    \b
    Example:
      ripieno responses forget laptop
      ripieno responses forget laptop --config gateway.toml --yes
    """
    caller = "" if caller == _KEYLESS else caller
    if not yes:
        confirm_loss(f"Erase all that is stored for {clean(caller) or 'callers without a key'}?", "erase", "erased")

    def is_theirs(conversation: str) -> bool:
        # Without an owner are those of stored responses, and the user's own.
        return bool(caller) or is_identifier(conversation, RESPONSE)

    loaded = load_layers(settings, quiet=True)
    with open_journal(loaded, os.environ) as journal:
        known = [name or _KEYLESS for name, _, _ in callers_in(journal.database)]
        store = PausedStore(journal.database)
        paused = {one.identifier for one in store.all(caller) if is_theirs(one.identifier)}
        kept = (one.identifier for one in journal.conversations(owner=caller) if not one.deleted)
        recorded = set(filter(is_theirs, kept))
        if answered := count_answered(journal.database, caller):
            raise Conflict(
                f"The gateway answers {count(answered, 'request')} of this caller now, and would write anew what is "
                "erased. Run this again when that has ended."
            )
        for name in paused | recorded:
            with store.claimed(name, owner=caller):
                pass  # Refused before anything is erased.
        try:
            found = erase(journal.database, caller)
            for name in sorted(paused | recorded):
                with store.claimed(name, owner=caller):
                    if name in recorded:
                        delete_conversation(journal, name, owner=caller, state=loaded.state, queue=None)
                    else:
                        store.forget(name, owner=caller)
        finally:
            journal.database.clean()
    if not (found or paused or recorded):
        raise NameAbsence("caller with stored responses", caller or _KEYLESS, known)
    click.echo(f"Erased all that was stored for {clean(caller) or 'callers without a key'}.")
