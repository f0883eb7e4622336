"""Who decides what runs: rules, from the strictest down, and then a confirmer that can only say yes by saying yes."""

import asyncio
import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.approvals import (
    Answer,
    Approve,
    AutonomousConfirmer,
    ConfirmationRequest,
    Confirmer,
    Deny,
    Edit,
    Question,
    RulesConfirmer,
    TerminalConfirmer,
)
from ripieno.approvals.requests import ask
from ripieno.approvals.rules import Verdict
from ripieno.approvals.rules import judge as judge_call
from ripieno.canisters.controls import Rules
from ripieno.descriptors import Policy
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import owner
from tests.support.scripted_models import settle_down


def request(tool: str = "mine.erase", **arguments: object) -> ConfirmationRequest:
    return ConfirmationRequest(
        invocation="a", tool=tool, effect="write", arguments=frozendict(arguments), reason="its effect is write"
    )


def judge(identity: str, policy: Policy, rules: Rules, **arguments: object) -> Verdict:
    return judge_call(identity, policy, CallRules.of(rules), arguments)


# Rules.


@pytest.mark.parametrize(
    ("rules", "policy", "action"),
    [
        (Rules(), Policy(effect="none"), "run"),
        (Rules(), Policy(effect="read"), "run"),
        (Rules(), Policy(effect="write"), "ask"),
        (Rules(), Policy(effect="destructive"), "ask"),
        (Rules(), Policy(), "ask"),
        (Rules(approve=("io.move",)), Policy(effect="write"), "run"),
        (Rules(approve=("io.*",)), Policy(effect="write"), "run"),
        (Rules(approve=("io",)), Policy(effect="write"), "run"),
        (Rules(approve=("git.*",)), Policy(effect="write"), "ask"),
        (Rules(approve=("io.*",), ask=("io.move",)), Policy(effect="write"), "ask"),
        (Rules(approve=("io.*",), deny=("io.move",)), Policy(effect="write"), "deny"),
        (Rules(ask=("io.*",), deny=("io.move",)), Policy(effect="write"), "deny"),
        (Rules(ask=("io.*",)), Policy(effect="read"), "ask"),
        (Rules(deny=("io.*",)), Policy(effect="none"), "deny"),
        (Rules(approve=("io.move",)), Policy(effect="read", confirm=True), "ask"),
        (Rules(approve=("io.move",)), Policy(effect="write", confirm=True), "ask"),
        (Rules(deny=("io.move",)), Policy(confirm=True), "deny"),
    ],
)
def test_the_stricter_rule_holds(rules: Rules, policy: Policy, action: str) -> None:
    assert judge("io.move", policy, rules).action == action


@pytest.mark.parametrize("pattern", ["*", "io", "io.*", "*.erase", "io.eras?", "io.[e]rase"])
def test_what_destroys_is_not_approved_by_a_wildcard(pattern: str) -> None:
    policy = Policy(effect="destructive")
    assert judge("io.erase", policy, Rules(approve=(pattern,))).action == "ask"
    assert judge("io.erase", policy, Rules(approve=(pattern, "io.erase"))).action == "run"


def test_a_tool_cannot_be_named_like_the_wildcard_that_approves_it() -> None:
    rules = Rules(approve=("srv.*",))
    assert judge("srv.*", Policy(effect="destructive"), rules).action == "ask"
    assert judge("srv.*", Policy(effect="write"), rules).action == "run"


@pytest.mark.parametrize("name", ["srv.a[1]", "srv.what?", "srv.[!x]", "srv.*"])
def test_a_full_name_denies_whatever_characters_it_has(name: str) -> None:
    assert judge(name, Policy(effect="read"), Rules(deny=(name,))).action == "deny"
    assert judge(name, Policy(effect="read"), Rules(ask=(name,))).action == "ask"


def test_the_reason_names_the_rule() -> None:
    assert judge("io.move", Policy(), Rules(deny=("io.*",))).reason == "[confirmation] deny has 'io.*'"
    assert judge("io.move", Policy(), Rules(approve=("io.*",))).reason == "[confirmation] approve has 'io.*'"
    assert judge("io.move", Policy(), Rules()).reason == "its effect is write"
    assert "confirm = true" in judge("io.move", Policy(confirm=True), Rules()).reason


# Asking.


class Saying:
    """A confirmer that raises, or answers, whatever a test wants."""

    def __init__(self, said: Any) -> None:
        self.said = said

    async def confirm(self, request: ConfirmationRequest) -> Any:
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError(), asyncio.CancelledError()])
async def test_a_confirmer_that_raises_denies(error: BaseException) -> None:
    answer = await ask(Saying(error), request())
    assert isinstance(answer, Deny)
    assert answer.advice.startswith("The confirmation ")


@pytest.mark.parametrize("answer", [None, True, "yes", Approve, "y"], ids=repr)
async def test_any_other_answer_denies(answer: Any) -> None:
    assert await ask(Saying(answer), request()) == Deny("The confirmation gave no answer.")
    assert await ask(Saying(Deny(answer)), request()) == Deny(str(answer))


class Plain:
    """A confirmer whose method is not asynchronous."""

    def confirm(self, request: ConfirmationRequest) -> Answer:
        return Approve()


@pytest.mark.parametrize(
    ("confirmer", "failure", "needs"),
    [
        (Saying(KeyError("who")), "The confirmer Saying failed with KeyError: 'who': the call is denied.", False),
        (Plain(), "The confirmer Plain failed with TypeError: ", True),
        (object(), "The confirmer object failed with AttributeError: ", True),
    ],
)
async def test_the_author_of_a_confirmer_reads_why_it_failed(confirmer: Any, failure: str, needs: bool) -> None:
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    answer = await ask(confirmer, request())
    (context,) = failed
    assert answer == Deny(f"The confirmation failed with {type(context['exception']).__name__}.")
    assert context["message"].startswith(failure)
    # Only what is missing is asked for.
    assert ("It needs a method: async def confirm" in context["message"]) is needs


class Hanging:
    def __init__(self, *, stubborn: bool = False) -> None:
        self.began = asyncio.Event()
        self.cancellations = 0
        self.stubborn = stubborn

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        self.began.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancellations += 1
                if not self.stubborn or self.cancellations > 1:
                    raise


@pytest.mark.parametrize("stubborn", [False, True])
async def test_whoever_asks_can_be_cancelled(stubborn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.02 if stubborn else 60)
    confirmer = Hanging(stubborn=stubborn)
    task = asyncio.create_task(ask(confirmer, request()))
    await confirmer.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert confirmer.cancellations == 1


async def test_nobody_there_names_the_key_to_set() -> None:
    answer = await RulesConfirmer().confirm(request())
    assert answer == Deny(
        "No one can approve it here (its effect is write). "
        'The user can allow it with approve = ["mine.erase"] under [confirmation].'
    )


@pytest.mark.parametrize("confirmer", [RulesConfirmer(), AutonomousConfirmer()])
async def test_what_always_needs_approval_gets_no_advice_that_does_not_help(confirmer: Confirmer) -> None:
    """The rule that is advised otherwise changes nothing here."""
    policy = Policy(effect="destructive", confirm=True)
    verdict = judge("mine.erase", policy, Rules(approve=("mine.erase",)))
    assert verdict.action == "ask"
    asked = dataclasses.replace(request(), effect="destructive", reason=verdict.reason)
    answer = await confirmer.confirm(asked)
    assert isinstance(answer, Deny)
    assert "always needs approval: its descriptor has confirm = true" in answer.advice
    assert "ripieno ask --defer" in answer.advice
    assert "approve =" not in answer.advice


# At the terminal.


def typing(*lines: str) -> tuple[TerminalConfirmer, list[str]]:
    """A terminal at which a person types these lines, and the prompts that it shows."""
    prompts: list[str] = []
    typed = list(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        if not typed:
            raise EOFError
        return typed.pop(0)

    return TerminalConfirmer(read), prompts


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        *((line, Approve()) for line in ("y\n", " Yes \n")),
        *((line, Deny("The user said no.")) for line in ("n\n", "\n", "NO")),
        ("yes, but only one\n", Deny("The user said no, and adds: yes, but only one")),
    ],
)
async def test_only_a_plain_yes_approves(line: str, answer: Answer) -> None:
    confirmer, prompts = typing(line)
    assert await confirmer.confirm(request(path="a b")) == answer
    (prompt,) = prompts
    assert prompt.startswith("\nmine.erase wants to run.\nEffect: write. Asks because its effect is write.\n")
    assert prompt.endswith('\n| {"path":"a b"}\nAllow it? [y/N, e: edit, or advice for the model] ')


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("d\n", "d is no key here.\ny    run this call\n"),
        ("\x07\n", "\\u0007 is no key here.\n"),
        ("a\n", "A rule requires confirmation of each call"),
        ("\ny\n", "Several lines are no answer. Nothing is decided; type one line.\n"),
    ],
)
async def test_what_is_no_answer_is_asked_again(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    confirmer, prompts = typing(line, "no, wait\n")
    assert await confirmer.confirm(request()) == Deny("The user said no, and adds: no, wait")
    assert len(prompts) == 2
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("error", [EOFError(), OSError(6, "No such device")])
async def test_no_terminal_means_denied(error: Exception) -> None:
    def read(prompt: str) -> str:
        raise error

    assert await TerminalConfirmer(read).confirm(request()) == Deny("There is no terminal on which to ask the user.")


async def test_one_request_is_asked_at_a_time() -> None:
    reading, most = 0, 0
    lock = threading.Lock()

    def read(prompt: str) -> str:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        with lock:
            reading -= 1
        return "y"

    confirmer: Confirmer = TerminalConfirmer(read)
    answers = await asyncio.gather(*(confirmer.confirm(request()) for _ in range(8)))
    assert answers == [Approve()] * 8
    assert most == 1


async def test_a_prompt_that_nobody_answers_can_be_cancelled() -> None:
    began, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def read(prompt: str) -> str:
        loop.call_soon_threadsafe(began.set)
        go.wait(30)
        return "y"

    confirmer = TerminalConfirmer(read)
    task = asyncio.create_task(confirmer.confirm(request()))
    await began.wait()
    task.cancel()
    await settle_down()
    assert task.cancelled()
    go.set()


# What a person sees.


async def test_a_tool_cannot_write_on_the_terminal_by_its_name() -> None:
    confirmer, prompts = typing("")
    await confirmer.confirm(request("srv.\x1b[2J\u202eevil\r", text="\x1b[1A\u3164"))
    assert prompts[0].isprintable() or set(prompts[0]) - {"\n"} == {one for one in prompts[0] if one.isprintable()}
    assert "srv.\\u001b[2J\\u202eevil\\r" in prompts[0]


def test_the_arguments_are_shown_whole_and_in_one_order() -> None:
    shown = request(z="\x1b", a="x" * 5000).text
    assert shown == '{"a":"' + "x" * 5000 + '","z":"\\u001b"}'


# Questions that a tool asks back.

FORM = {
    "type": "object",
    "required": ["size", "mail"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "mail": {"type": "string", "format": "email"},
        "note": {"type": "string"},
    },
}


async def inquire(*lines: str, schema: Mapping[str, Any] = FORM) -> tuple[Answer, list[str]]:
    """What comes of lines that are typed, and the prompts that were shown."""
    confirmer, prompts = typing(*(f"{line}\n" for line in lines))
    question = Question(text="How big?", schema=schema)
    return await confirmer.confirm(dataclasses.replace(request(), question=question)), prompts


async def test_a_field_is_asked_again_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    answer, prompts = await inquire("y", "abc", "0", "3", "a\nb", "ada@example.org", "")
    assert answer == Edit({"size": 3, "mail": "ada@example.org"})
    assert [prompt.strip().partition(" ")[0] for prompt in prompts[1:]] == ["size"] * 3 + ["mail"] * 2 + ["note"]
    said = capsys.readouterr().err.splitlines()
    assert [line.strip() for line in said] == [
        'It must be an integer, not a string: "abc".',
        "It must be at least 1, not 0.",
        "Several lines are no answer. Nothing is decided; type one line.",
    ]


async def test_three_lines_that_do_not_fit_decline_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    answer, prompts = await inquire("y", "a", "b", "c", "d")
    assert isinstance(answer, Deny)
    assert len(prompts) == 4
    assert capsys.readouterr().err.splitlines()[-1] == "Declined: size was not answered in 3 tries."


async def test_answers_that_do_not_fit_together_are_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "minProperties": 1}
    answer, _ = await inquire("y", "", "", schema=schema)
    assert isinstance(answer, Deny)
    assert capsys.readouterr().err.startswith("Declined: The answers are invalid: ")


async def test_a_decline_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance((await inquire("n"))[0], Deny)
    assert capsys.readouterr().err == "Declined: The user did not answer.\n"


async def test_what_is_said_after_an_unanswered_prompt_begins_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance((await inquire("y", "3"))[0], Deny)
    assert capsys.readouterr().err == "\nDeclined: There is no terminal on which to ask the user.\n"
