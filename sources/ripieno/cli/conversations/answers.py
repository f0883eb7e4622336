"""Answers to calls that wait, as ``ripieno approvals`` gives them, and what follows from them."""

import contextlib
from collections.abc import Generator, Iterable, Mapping, Sequence

import click

from ripieno.approvals import Approve, Deny
from ripieno.assembly.continuations import has_begun, reopen_lost
from ripieno.assembly.submission_states import find_submission
from ripieno.assembly.submissions import dispatcher_beside
from ripieno.canisters import ResultCanister
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.display import brief, clean, short
from ripieno.cli.common.main import say
from ripieno.cli.common.workers import report_lacking_worker
from ripieno.cli.conversations.allowed import also_allowed, say_allowed
from ripieno.cli.conversations.cassettes import ANSWERED
from ripieno.cli.conversations.persistence import result_command, resume_command
from ripieno.cli.conversations.waiting_calls import begun_of
from ripieno.cli.journal.queued import explaining_absent, explaining_conducted, name_of_run
from ripieno.cli.journal.selection import own_place
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import Conflict, InputError, NameAbsence
from ripieno.storage.dispatch.contract import Dispatched, Submission
from ripieno.storage.journal import Journal


def answer_calls(journal: Journal, paused: Paused, calls: Sequence[str], answer: Approve | Deny) -> None:
    """Answers calls of a conversation, or all that wait; its worker then continues it. Errors: ``InputError``."""
    store = PausedStore(journal.database)
    denies = isinstance(answer, Deny)
    if (following := paused.next_submission) is not None:
        paused = _reopened(journal, paused, following, is_safe=denies or bool(calls))
    begun = begun_of(journal, paused)
    unanswered = (*paused.unanswered, *(paused.lacking if denies else ()))
    open_ones = [one for one in unanswered if one.invocation not in begun]
    if paused.next_submission is not None:
        _repeat(journal, paused, calls, answer)
        return
    wanted = [one for call in calls for one in choose(paused, call, open_ones)] or open_ones
    if not wanted and paused.lacking:
        names = ", ".join(one.invocation for one in paused.lacking)
        advice = f"To give it: {result_command(paused, paused.lacking[0])}"
        raise InputError(f"No call of {paused.identifier} waits for approval, but {names} for a result. {advice}")
    if not wanted:
        raise InputError(f"No call of {paused.identifier} waits for an answer. {next_step(paused)}")
    also = also_allowed(paused, wanted, answer) if isinstance(answer, Approve) and answer.always else ()
    changed = paused
    try:
        with explaining_change(journal, paused):
            if answered := {one.invocation: answer for one in wanted if one.why == "approval"}:
                answered |= {one.invocation: Approve() for one in also}
                changed = store.answer(paused.identifier, answered, owner=paused.owner)
            if isinstance(answer, Deny) and (declined := [one for one in wanted if one.why == "caller"]):
                results = [_denied(paused, one, answer.advice) for one in declined]
                changed = store.give(paused.identifier, results, owner=paused.owner)
    except Conflict:
        # Another program may have given the last answer since this one looked.
        current = store.load(paused.identifier, owner=paused.owner)
        if current is None or current.next_submission is None:
            raise
        _repeat(journal, current, calls, answer)
        return
    if isinstance(answer, Approve) and answer.always:
        say_allowed(wanted, answer)
    report(journal, changed, "Denied" if denies else "Approved", [*wanted, *also])


@contextlib.contextmanager
def explaining_change(journal: Journal, paused: Paused) -> Generator[None, None, None]:
    """Says why a conversation cannot be changed that another program conducts now, or has continued.

    Errors: ``InputError``, with the next command.
    """
    place, name, owner = own_place(), paused.identifier, paused.owner
    with explaining_absent(journal, place, name, owner), explaining_conducted(journal, place, name, owner):
        yield


def _reopened(journal: Journal, paused: Paused, following: Submission, *, is_safe: bool) -> Paused:
    """The conversation, whose calls wait again if no run takes their answers.

    Errors: ``InputError`` then, unless ``is_safe``, if an approval of all would replace another answer.
    """
    with contextlib.closing(dispatcher_beside(own_place())) as dispatcher:
        reopened = reopen_lost(dispatcher, journal, paused)
    if reopened.attempt == paused.attempt:
        return reopened
    text = f"The run {short(following.identifier)}, which was to continue it, has not begun. Its calls wait again."
    if not is_safe and any(not isinstance(one.answer, Approve) for one in paused.answers.values()):
        raise InputError(f"{text} To see them: ripieno approvals show {paused.short}")
    say(text)
    return reopened


def _repeat(journal: Journal, paused: Paused, calls: Sequence[str], answer: Approve | Deny) -> None:
    """Reports what continues a conversation of which each call has its answer. Errors: ``Conflict`` for another one."""
    _check_repeated(paused, calls, "denied" if isinstance(answer, Deny) else "approved")
    if isinstance(answer, Approve) and answer.always:
        _say_narrower(paused, calls)
    # The command that gave the last answer may have ended before it submitted this. Twice, it runs once.
    report(journal, paused, "", ())


def _say_narrower(paused: Paused, calls: Sequence[str]) -> None:
    """Says which approvals that stand allow no later calls, as this one would."""
    narrow = (name for name, one in paused.answers.items() if isinstance(one.answer, Approve) and not one.answer.always)
    if names := [name for name in narrow if not calls or name in calls]:
        say(f"! Approved before, without --always: {', '.join(map(clean, names))}. Later calls are asked about again.")


def _check_repeated(paused: Paused, calls: Sequence[str], word: str) -> None:
    """Errors: ``Conflict`` unless calls that all have answers have this one. Without calls, all that it applies to."""
    for call in calls:
        if paused.answer_to(call) != word:
            choose(paused, call, ())
    if calls:
        return
    given = {one.invocation: paused.answer_to(one.invocation) for one in paused.conversation.waiting}
    alike = {"", word}
    # No approval applies to a call with a result. A denial does, unless it was given to others.
    if word == "approved" or word in given.values():
        alike.add("has its result")
    for name, answer in given.items():
        if answer not in alike:
            raise paused.answered(name)


def _denied(paused: Paused, waiting: Waiting, advice: str) -> ResultCanister:
    """The denial of a call that its client runs."""
    conversation = paused.conversation
    (call,) = [one for one in conversation.open if one.identifier == waiting.invocation]
    (denial,) = conversation.replace(open=(call,)).decline_open(advice).canisters[-1:]
    assert isinstance(denial, ResultCanister)
    return denial


def report(journal: Journal, paused: Paused, done: str, answered: Sequence[Waiting]) -> None:
    """Reports answers, and the next step."""
    for one in answered:
        click.echo(f"{done}: {clean(one.tool)} ({clean(one.invocation)})")
    if left := len(paused.unanswered) + len(paused.lacking):
        click.echo(f"Calls left to answer: {left}")
        return
    if (submission := paused.next_submission) is not None:
        with contextlib.closing(dispatcher_beside(own_place())) as dispatcher:
            new = dispatcher.submit(submission)
            found = None if new else find_submission(dispatcher, journal.database, submission.identifier)
        if found is not None and found.over:
            _report_over(journal, paused, found)
            return
        click.echo(clean(f"A worker continues it. To watch it: ripieno runs watch {short(submission.identifier)}"))
        report_lacking_worker(submission, journal.database)
        return
    click.echo(clean(next_step(paused)))


def _report_over(journal: Journal, paused: Paused, found: Dispatched) -> None:
    """Reports that the run of these answers has ended: another program gave them, too, and submitted it first.

    Errors: ``InputError`` if it failed or was cancelled, with the command for what has become of the conversation.
    """
    name = short(found.submission.identifier)
    if found.state not in ("failed", "cancelled"):
        who = "A worker" if has_begun(journal, found.submission) else "Another program"
        click.echo(clean(f"{who} has continued it already. To see it: ripieno runs watch {name}"))
        return
    advice = next_step(paused)
    with contextlib.suppress(NameAbsence):
        if journal.find(paused.identifier, owner=paused.owner).finish in ANSWERED:
            advice = f"To see it: ripieno journal show {paused.short}"
    raise InputError(f"The run {name}, which continued it, has ended ({found.state}). {advice}")


def say_begun(journal: Journal, paused: Paused, begun: Mapping[str, str]) -> None:
    """Says how a conversation goes on whose calls have begun."""
    if not begun:
        return
    if run := name_of_run(journal, own_place(), paused.identifier, paused.owner, "running", "queued"):
        goes_on = f"The run {run} continues it. To watch it: ripieno runs watch {run}"
    else:
        goes_on = f"The program that went on with it was ended, or it runs now. {next_step(paused)}"
    click.echo(clean(f"Begun in {paused.short}: {', '.join(begun)}. {goes_on}"))


def say_ended(journal: Journal, waiting: Iterable[Paused]) -> None:
    """Says of which conversations the run that was to continue them has ended, and leaves them as they are."""
    answered = [(one, following) for one in waiting if (following := one.next_submission) is not None]
    if not answered:
        return
    # Of calls that wait, people read also where the queue cannot be used.
    with contextlib.suppress(InputError), contextlib.closing(dispatcher_beside(own_place())) as dispatcher:
        for paused, following in answered:
            with contextlib.suppress(NameAbsence):  # It was not submitted yet.
                found = dispatcher.find(following.identifier)
                if found.over:
                    _say_ended(paused, found, begun=has_begun(journal, following))


def _say_ended(paused: Paused, found: Dispatched, *, begun: bool) -> None:
    reason = f": {brief(found.reason)}" if found.reason else ""
    name = short(found.submission.identifier)
    click.echo(clean(f"Not continued: {paused.short}. The run {name} has ended ({found.state}){reason}"))
    again = f"To answer again: ripieno approvals approve {paused.short}    (or: deny)"
    click.echo(clean(next_step(paused) if begun else again))


def next_step(paused: Paused) -> str:
    """The command with which a conversation goes on."""
    command = resume_command(paused)
    if not paused.by_client:
        return f"Continue with: {command}"
    return (
        "Its client continues it, with a request that has the waiting response as previous_response_id.\n"
        f"To continue it here instead of the client: {command}"
    )


def choose(paused: Paused, call: str, among: Iterable[Waiting]) -> list[Waiting]:
    """The call with this identifier, or all without one. Errors: ``InputError`` if it is none of them."""
    found = [one for one in among if not call or one.invocation == call]
    if call and not found:
        if paused.answer_to(call):
            raise paused.answered(call)
        names = ", ".join(one.invocation for one in paused.conversation.waiting) or "none"
        raise InputError(f"No call {call!r} waits for an answer in {paused.identifier}. Waiting calls: {names}.")
    return found
