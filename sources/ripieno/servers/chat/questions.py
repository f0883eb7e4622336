"""Questions to the user: the calls that wait, as a page shows them, and the answers that it sends.

An answer names the digest of what was shown. If the call, its changes, its tool or the rules are other ones now, the
digest is another one, and the answer is refused.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from frozendict import frozendict

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Deny, Edit, Given
from ripieno.approvals.allowances import covers, ways
from ripieno.approvals.grants import Binding
from ripieno.approvals.visible_text import visible
from ripieno.assembly import Assembly
from ripieno.canisters import Conversation, InvocationCanister
from ripieno.canisters.conversation import Waiting
from ripieno.exceptions import Conflict, RequestInvalidity
from ripieno.execution.approval import edited_arguments
from ripieno.jsonvalues import digest, freeze, is_table, thaw
from ripieno.schemas import Schema

#: One question: ``kind`` is ``approval`` (may the call run?), ``input`` (a tool asks for values), or ``client`` (the
#: client runs the call and sends its result).
Question: TypeAlias = frozendict[str, object]
_ANSWERS = ("approve", "deny", "edit")


def questions_of(conversation: Conversation, elsewhere: str = "") -> Iterator[Question]:
    """The questions of a conversation that waits, in the order of its calls.

    ``elsewhere`` says where they are to be answered, if not here: the first note of each. It then has no choices.
    """
    calls = {one.identifier: one for one in conversation.open}
    for waiting in conversation.waiting:
        call = calls[waiting.invocation]
        if waiting.why == "approval":
            yield approval_question(waiting, elsewhere)
        elif waiting.why == "caller":
            yield _for_client(call)


def input_question(request: ConfirmationRequest) -> Question:
    """The question that a tool asks during a call. Its words come from the tool or its server."""
    mapping = request.mapping()
    question = mapping["question"]
    asked: Question = freeze(
        {
            "kind": "input",
            "invocation": request.invocation,
            "tool": request.tool,
            "digest": digest(question),
            "text": _lines(question["text"]),
            "schema": question["schema"],
            "defaults": mapping["arguments"],
        }
    )
    return asked


def question_id(question: Mapping[str, Any]) -> str:
    """The identifier of a question for other protocols: an answer that names it is bound to what was shown."""
    return f"{question['digest']}.{question['invocation']}"


def read_answer(question: Question, sent: Mapping[str, Any]) -> Answer:
    """The answer that a client sends to a question: ``{"answer", "digest", "reason", "always", "arguments"}``.

    Errors: ``Conflict`` for another digest; ``RequestInvalidity``.
    """
    if question["kind"] == "client":
        raise RequestInvalidity("This call waits for its result, not for an answer.", parameter="answer")
    if sent.get("digest") != question["digest"]:
        raise Conflict("The question has changed since it was shown, or the digest is missing. Load it again.")
    answer = sent.get("answer")
    if answer not in _ANSWERS:
        raise RequestInvalidity(f"An answer is one of: {', '.join(_ANSWERS)}.", parameter="answer")
    always, exact = sent.get("always", False), sent.get("exact", False)
    if not isinstance(always, bool) or not isinstance(exact, bool):
        raise RequestInvalidity("always and exact are true or false.", parameter="always")
    if always and "always" not in thaw(question).get("choices", ()):
        raise RequestInvalidity("This call is asked about every time: leave out always.", parameter="always")
    reason = sent.get("reason", "")
    if not isinstance(reason, str):
        raise RequestInvalidity("A reason is a text.", parameter="reason")
    if answer == "approve":
        return Approve(always=always, exact=exact)
    if answer == "deny":
        return Deny(reason)
    arguments = sent.get("arguments")
    if not is_table(arguments):
        raise RequestInvalidity("Edited arguments are an object.", parameter="arguments")
    if question["kind"] == "input":
        # The tool would get no values at all: the question stays open instead.
        schema = Schema.of(thaw(question["schema"]), closed=False)
        _check(schema, lambda: schema.complete(freeze(dict(arguments))))
    return Edit(arguments)


def also_approved(
    conversation: Conversation, questions: Sequence[Question], answered: Question, answer: Answer
) -> Mapping[str, Given]:
    """The answers to other open questions that an *always* to one gives, by their calls; each for the call as shown.

    A question that does not offer *always* is asked each time.
    """
    if not isinstance(answer, Approve) or not answer.always:
        return {}
    others = [one for one in questions if one["kind"] == "approval" and one["invocation"] != answered["invocation"]]
    allowed = [one["invocation"] for one in others if one["always"] and covers(answered, one, exact=answer.exact)]
    waiting = [one for one in conversation.waiting if one.invocation in allowed]
    return {one.invocation: Given(answer=Approve(), binding=binding_of(one)) for one in waiting}


def check_edit(assembly: Assembly, tool: str, edit: Edit) -> None:
    """Errors: ``RequestInvalidity`` for arguments that the tool would refuse; the question stays open."""
    invokers = (one for ensemble in assembly.ensembles for one in ensemble.invokers.values())
    invoker = next((one for one in invokers if one.identity == tool), None)
    if invoker is not None:
        _check(invoker.schema, lambda: edited_arguments(invoker, edit))


def binding_of(waiting: Waiting) -> Binding:
    """The binding of an answer to a waiting call."""
    return Binding(**{name: str(part) for name, part in waiting.binding.items()})


def approval_question(waiting: Waiting, elsewhere: str = "") -> Question:
    """The question whether a call may run, as a page shows it."""
    request = thaw(waiting.request)
    choices = [] if elsewhere else [one for one in request["choices"] if one != "defer"]
    presentation: dict[str, Any] = request["presentation"]
    claim = presentation["claim"]
    shown = {
        # Of the tool's local definition; conversations that waited before it was kept have none.
        "description": visible(presentation.get("description", "")),
        "arguments": visible(presentation["arguments"]),
        "change": None if presentation["change"] is None else _lines(presentation["change"]),
        "notes": [visible(one) for one in (elsewhere, *presentation["notes"]) if one],
        "claim": None if claim is None else {name: _lines(str(text)) for name, text in claim.items()},
    }
    # Conversations that waited before workers remembered what is allowed do not have it.
    lasting = bool(request.get("lasting"))
    offered = ways(request["tool"], request["effect"], lasting=lasting) if "always" in choices else ()
    asked: Question = freeze(
        {
            "kind": "approval",
            "invocation": waiting.invocation,
            "tool": request["tool"],
            "digest": digest(waiting.binding),
            "effect": request["effect"],
            "reason": visible(request["reason"]),
            "arguments": request["arguments"],
            "shown": shown,
            "choices": choices,
            "always": [dataclasses.asdict(one) for one in offered],
        }
    )
    return asked


def _for_client(call: InvocationCanister) -> Question:
    return frozendict(kind="client", invocation=call.identifier, name=call.name, arguments=call.arguments)


def _check(schema: Schema, complete: Callable[[], Mapping[str, Any]]) -> None:
    """Errors: ``RequestInvalidity`` for arguments, with their defaults, that do not match the schema."""
    try:
        problems = schema.validate(complete())
    except (TypeError, ValueError) as error:
        raise RequestInvalidity(f"The edited arguments are invalid: {error}", parameter="arguments") from None
    if problems:
        raise RequestInvalidity(" ".join(one.message for one in problems), parameter="arguments")


def _lines(text: str) -> str:
    """A text of several lines, in which every character is visible."""
    return "\n".join(visible(line) for line in text.split("\n"))
