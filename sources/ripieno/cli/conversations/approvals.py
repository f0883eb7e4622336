"""``ripieno approvals``: lists calls that wait for a person, and answers them from another process."""

import shlex
import shutil
import sys

import click

from ripieno.approvals import Approve, Deny
from ripieno.canisters import ResultCanister, TextualContent
from ripieno.canisters.display import SHORT, clean
from ripieno.cli.common.completion import completion
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.options import Format, Settings, common, formats
from ripieno.cli.common.tables import abbreviated, print_json, print_table
from ripieno.cli.conversations.allowed import allowed
from ripieno.cli.conversations.answers import (
    answer_calls,
    choose,
    explaining_change,
    report,
    say_begun,
    say_ended,
)
from ripieno.cli.conversations.persistence import first_words, is_elsewhere
from ripieno.cli.conversations.selection import command_lines, only_waiting
from ripieno.cli.conversations.waiting_calls import (
    begun_of,
    call_line,
    mapping_of,
    presentation_of,
    since,
    state_of,
    waiting_mapping,
)
from ripieno.cli.journal.queued import explaining_absent
from ripieno.cli.journal.selection import own_place
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import InputError
from ripieno.storage.journal import Journal

#: Conversations of other folders that a message lists.
_LISTED = 3


@click.group()
@common
def approvals() -> None:
    """Approve or deny calls that wait for a person, take approvals back, and give results of calls that a client runs.

    A conversation started with --defer pauses when a call needs approval, and is saved. So is one that calls a tool
    with origin = "client". Look at its calls, answer them, and continue with: ripieno resume

    The beginning of an identifier names a conversation. Without one, each command means the only conversation of this
    folder that waits. If several wait, it does nothing, and prints the command for each.

    \b
    Example:
      ripieno ask --defer "Write a README."
      ripieno approvals list
      ripieno approvals show 3f9a
      ripieno approvals approve 3f9a
      ripieno resume 3f9a
    """


approvals.add_command(allowed)


@approvals.command("list")
@formats
@common
def list_(output: Format) -> None:
    """List the conversations that wait, and their calls.

    \b
    Example:
      ripieno approvals list
      ripieno approvals list --format json
    """
    journal = _journal()
    waiting = PausedStore(journal.database).all()
    begun = {(one.owner, one.identifier): begun_of(journal, one) for one in waiting}
    if output == "json":
        print_json([mapping_of(one, begun[one.owner, one.identifier]) for one in waiting])
        return
    if not waiting:
        click.echo("No conversation waits for an answer.")
        return
    owners, folders = any(one.owner for one in waiting), any(is_elsewhere(one.workspace) for one in waiting)
    short = abbreviated((one.identifier for one in waiting), SHORT)
    rows = [
        [
            short[paused.identifier],
            one.invocation,
            one.tool,
            state_of(paused, one, begun[paused.owner, paused.identifier]),
            since(paused),
            *([paused.owner or "-"] if owners else []),
            *([paused.workspace] if folders else []),
            first_words(paused.conversation),
        ]
        for paused in waiting
        for one in paused.conversation.waiting
    ]
    some = [*(["OWNER"] if owners else []), *(["FOLDER"] if folders else [])]
    print_table(["CONVERSATION", "CALL", "TOOL", "STATE", "SINCE (UTC)", *some, "BEGINS WITH"], rows)
    for paused in waiting:
        say_begun(journal, paused, begun[paused.owner, paused.identifier])
    say_ended(journal, [one for one in waiting if not begun[one.owner, one.identifier]])


def _paused(context: click.Context) -> list[str]:
    with context.scope():
        return [one.identifier for one in PausedStore(_journal().database).all()]


_PAUSED = completion(_paused)


@approvals.command()
@click.argument("conversation", default="", shell_complete=_PAUSED)
@click.argument("call", default="")
@formats
@common
def show(conversation: str, call: str, output: Format) -> None:
    """Show the waiting calls of a CONVERSATION, or one CALL, in full.

    The beginning of the identifier is enough. Without it, shows the only conversation of this folder that waits.

    \b
    Example:
      ripieno approvals show
      ripieno approvals show 3f9a call_2
    """
    journal = _journal()
    paused = _find(journal, conversation, call)
    begun = begun_of(journal, paused)
    chosen = choose(paused, call, paused.conversation.waiting)
    if output == "json":
        print_json({**mapping_of(paused, begun), "waiting": [waiting_mapping(paused, one, begun) for one in chosen]})
        return
    owner = f" of {paused.owner}" if paused.owner else ""
    began = first_words(paused.conversation)
    words = f". It began with: {began}" if began else "."
    folder = f" in {paused.workspace}" if is_elsewhere(paused.workspace) else ""
    click.echo(clean(f"{paused.short}{owner} has waited since {since(paused)}{folder}{words}"))
    width, changes = shutil.get_terminal_size().columns, False
    for one in chosen:
        click.echo(f"{clean(one.invocation)}: {state_of(paused, one, begun)}")
        presentation = presentation_of(one) if one.request else None
        changes = changes or bool(presentation and presentation.change)
        click.echo(call_line(paused, one) if presentation is None else presentation.whole(width))
    if changes:
        click.echo(f"Changes are shown as they were at {since(paused)} UTC.")
    say_begun(journal, paused, begun)
    say_ended(journal, () if begun else (paused,))


@approvals.command()
@click.argument("conversation", default="", shell_complete=_PAUSED)
@click.argument("calls", nargs=-1)
@click.option("--always", is_flag=True, help="Also allow later calls of their tools in this conversation.")
@click.option("--exact", is_flag=True, help="With --always: only calls with exactly these arguments.")
@common
def approve(conversation: str, calls: tuple[str, ...], *, always: bool, exact: bool) -> None:
    """Approve calls of a CONVERSATION, each once, exactly as shown. Without CALLS, approves all that wait.

    An approval is valid for seven days, and only for what was shown: it expires if the tool, its arguments or the rules
    change. What --always allows is printed, and lasts as long as that says. Of a destructive tool, only calls with
    exactly these arguments are allowed.

    \b
    Example:
      ripieno approvals approve
      ripieno approvals approve 3f9a call_2
      ripieno approvals approve 3f9a --always
    """
    if exact and not always:
        raise InputError("--exact goes with --always.")
    given = [name for name, one in (("--always", always), ("--exact", exact)) if one]
    journal = _journal()
    paused = _find(journal, conversation, *calls, *given)
    answer_calls(journal, paused, calls, Approve(always=always, exact=exact))


@approvals.command()
@click.argument("conversation", default="", shell_complete=_PAUSED)
@click.argument("calls", nargs=-1)
@click.option("--advice", default="", metavar="TEXT", help="Advice for the model: what to do instead.")
@common
def deny(conversation: str, calls: tuple[str, ...], advice: str) -> None:
    """Deny calls of a CONVERSATION, also those that its client runs. Without CALLS, denies all that wait.

    \b
    Example:
      ripieno approvals deny 3f9a
      ripieno approvals deny 3f9a call_2 --advice "Only in docs/, please."
    """
    reason = f"The user denied this call. Advice: {advice}" if advice else "The user denied this call."
    journal = _journal()
    paused = _find(journal, conversation, *calls, *(("--advice", advice) if advice else ()))
    answer_calls(journal, paused, calls, Deny(reason))


@approvals.command()
@click.argument("conversation", default="", shell_complete=_PAUSED)
@click.argument("calls", nargs=-1)
@common
def revoke(conversation: str, calls: tuple[str, ...]) -> None:
    """Take back approvals of a CONVERSATION that were not used. Without CALLS, takes back all of them.

    The calls wait again. What was allowed for later calls, with "always", is taken back elsewhere: for the runs of
    workers with `ripieno approvals allowed`, for others in the program that asked, on the page under Approvals or in
    `ripieno chat` with /revoke.

    \b
    Example:
      ripieno approvals revoke 3f9a
      ripieno approvals revoke 3f9a call_2
    """
    journal = _journal()
    paused = _find(journal, conversation, *calls)
    given = [name for name, one in paused.answers.items() if isinstance(one.answer, Approve)]
    if not given and not calls:
        raise InputError(f"No call of {paused.identifier} is approved. See: ripieno approvals show {paused.short}")
    wanted = dict.fromkeys(calls or given)
    with explaining_change(journal, paused):
        PausedStore(journal.database).revoke(paused.identifier, wanted, owner=paused.owner)
    tools = {one.invocation: one.tool for one in paused.conversation.waiting}
    for name in wanted:
        click.echo(f"Taken back: {clean(tools.get(name, name))} ({clean(name)})")
    click.echo(f"To answer again: ripieno approvals show {paused.short}")


@approvals.command()
@click.argument("conversation", shell_complete=_PAUSED)
@click.argument("call")
@click.argument("text")
@common
def result(conversation: str, call: str, text: str) -> None:
    """Give the result of a CALL of a CONVERSATION that its client runs (origin = "client").

    The model reads TEXT; - reads it from standard input. To refuse the call instead: ripieno approvals deny

    \b
    Example:
      ripieno approvals result 3f9a call_1 "The title is: Ripieno"
      cat page.html | ripieno approvals result 3f9a call_1 -
    """
    journal = _journal()
    paused = _find(journal, conversation, call, "TEXT")
    if any(one.invocation == call for one in paused.unanswered):
        advice = f"ripieno approvals approve {paused.short}"
        raise InputError(f"The call {call!r} runs here, once it is approved. To approve it: {advice}")
    (waiting,) = choose(paused, call, paused.lacking)
    content = TextualContent(text=sys.stdin.read() if text == "-" else text)
    given = ResultCanister(invocation_id=waiting.invocation, content=(content,))
    with explaining_change(journal, paused):
        changed = PausedStore(journal.database).give(paused.identifier, [given], owner=paused.owner)
    report(journal, changed, "Result given", [waiting])


def _journal() -> Journal:
    """The journal. The end of the command closes it."""
    return click.get_current_context().with_resource(Journal(own_place()))


def _find(journal: Journal, beginning: str, *further: str) -> Paused:
    """The conversation with this beginning, or else the only one of this folder that waits.

    ``further`` are further arguments of this command. Errors: ``NameAbsence``; ``InputError``, with the command for
    each conversation that may be meant.
    """
    store = PausedStore(journal.database)
    if beginning:
        with explaining_absent(journal, own_place(), beginning, None):
            return store.find(beginning)
    context = click.get_current_context()
    settings = context.ensure_object(Settings)

    def command(paused: Paused) -> str:
        words = ["ripieno", "approvals", context.info_name or "", paused.short, *further, *settings.selection]
        return shlex.join(filter(None, words))

    waiting = store.all()
    workspace = load_layers(settings, quiet=True).workspace
    if (only := only_waiting(waiting, workspace, command)) is not None:
        return only
    others = command_lines([command(one) for one in reversed(waiting)][:_LISTED])
    more = f"\n  and {len(waiting) - _LISTED} more: ripieno approvals list" if len(waiting) > _LISTED else ""
    elsewhere = f" In other folders:{others}{more}" if others else ""
    raise InputError(f"No conversation of {workspace.resolve()} waits for an answer.{elsewhere}")
