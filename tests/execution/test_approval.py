"""Approvals in the pipeline: an approved call runs once, unchanged, and no other call does."""

import dataclasses
import functools
import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.approvals import (
    Answer,
    Approve,
    AutonomousConfirmer,
    CallbackConfirmer,
    ConfirmationRequest,
    Defer,
    DeferredConfirmer,
    Deny,
    Edit,
    Given,
)
from ripieno.approvals.grants import Binding
from ripieno.assembly import assemble
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import PatternInvalidity
from ripieno.execution import Circumstances, Deferred, Execution, Prepared
from ripieno.schemas import Schema
from ripieno.storage.records import Record
from tests.counts import count
from tests.support.command_line import User
from tests.support.scripted_models import Person, Recording, ensemble, fault_of, invoke, tool
from tests.support.single_calls import Seeing

FILE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["path"],
}


def writer(seeing: Seeing, name: str = "x", **policy: Any) -> Definition:
    return tool(name, seeing, schema=FILE, **{"effect": "write", **policy})


async def run(execution: Execution, found: Ensemble, /, around: Circumstances | None = None, **arguments: Any) -> Any:
    return await execution.execute(invoke("x", "a", **arguments), ensembles=[found], circumstances=around)


# Rules over arguments.


async def test_a_rule_over_arguments_denies() -> None:
    seeing, person = Seeing(), Person(Approve(), Approve())
    found = ensemble(writer(seeing), name="io")
    execution = Execution(rules=Rules(deny=("io.x(path=docs/**)",), approve=("io",)), confirmer=person)
    for path in ("docs/a", "docs/../docs/a", "Docs/a", "./docs//a", "docs"):
        assert fault_of(await run(execution, found, path=path)).category == "denied"
    assert (await run(execution, found, path="src/a")).error is None
    assert [one["path"] for one in seeing.arguments] == ["src/a"]
    assert person.requests == []


@pytest.mark.parametrize(
    ("rules", "path", "asked"),
    [
        (Rules(approve=("io.x(path=docs/**)",)), "docs/a", 0),
        (Rules(approve=("io.x(path=docs/**)",)), "src/a", 1),
        (Rules(approve=("io.x(path=docs/**)",)), "docs/../src/a", 1),
        (Rules(approve=("io.x",), ask=("io.x(path=docs/**)",)), "docs/a", 1),
        (Rules(approve=("io.x",), ask=("io.x(path=docs/**)",)), "src/a", 0),
        (Rules(approve=("io.x(size=1)",)), "src/a", 1),
    ],
)
async def test_a_rule_over_arguments_approves_or_asks(rules: Rules, path: str, asked: int) -> None:
    person = Person(Approve())
    execution = Execution(rules=rules, confirmer=person)
    assert (await run(execution, ensemble(writer(Seeing()), name="io"), path=path)).error is None
    assert len(person.requests) == asked


@pytest.mark.parametrize(
    ("rules", "path", "why"),
    [
        ({"deny": ("io.x(path=docs/**)",)}, "src/../a", "deny has 'io.x(path=docs/**)', where path may lead with '..'"),
        ({"ask": ("io.x(path=docs/**)",)}, "%2e%2e/a", "ask has 'io.x(path=docs/**)', where path may lead with '..'"),
        ({"approve": ("io.x(path=docs/**)",)}, "docs/../a", "is write; no approval covers path, since it has '..'"),
    ],
)
async def test_a_denial_says_that_two_dots_were_the_reason(rules: Any, path: str, why: str) -> None:
    found = ensemble(writer(Seeing()), name="io")
    assert why in (await run(Execution(rules=Rules(**rules)), found, path=path)).text
    assert "'..'" not in (await run(Execution(rules=Rules(**rules)), found, path="docs")).text


async def test_rules_see_presets_defaults_and_coerced_arguments() -> None:
    schema = {**FILE, "properties": {**FILE["properties"], "mode": {"type": "string", "default": "append"}}}
    definition = dataclasses.replace(writer(Seeing(), presets={"size": 7}), schema=Schema.of(schema))
    found = ensemble(definition, name="io")
    for pattern in ("io.x(size=7)", "io.x(mode=append)"):
        execution = Execution(rules=Rules(deny=(pattern,), approve=("io",)))
        assert fault_of(await run(execution, found, path="a")).category == "denied"
    plain = ensemble(writer(Seeing()), name="io")
    execution = Execution(rules=Rules(deny=("io.x(size=7)",), approve=("io",)))
    assert fault_of(await run(execution, plain, path="a", size="7")).category == "denied"


def test_a_rule_that_cannot_be_read_is_no_rule_that_is_left_out() -> None:
    with pytest.raises(PatternInvalidity):
        Execution(rules=Rules(deny=("io.x(path=docs/**",)))


# Answers.


async def test_an_edit_is_judged_again() -> None:
    seeing, recording = Seeing(), Recording()
    found = ensemble(writer(seeing, presets={"size": 7}), name="io")
    rules = Rules(deny=("io.x(path=docs/**)",))
    edits: list[dict[str, Any]] = [
        {"path": "docs/a"},
        {"path": "b", "size": 8},
        {"path": "b", "size": 7},
        {"path": "c"},
    ]
    execution = Execution(rules=rules, confirmer=Person(*map(Edit, edits)), recorder=recording)
    results = [await run(execution, found, path="a") for _ in edits]
    assert [one.error and one.error.category for one in results] == ["denied", "denied", None, None]
    assert [one["path"] for one in seeing.arguments] == ["b", "c"]
    started = [one.invocation for one in recording.records if one.stage == "started"]
    assert [one and dict(one.arguments) for one in started] == [{"path": "b"}, {"path": "c"}]
    # Who reads a result later sees what ran.
    assert [one.report.edited for one in results] == [None, None, {"path": "b"}, {"path": "c"}]


async def test_an_edit_that_changes_nothing_is_no_edit() -> None:
    seeing, recording = Seeing(), Recording()
    sizes = {"type": "integer", "default": 3}
    schema = {**FILE, "properties": {**FILE["properties"], "size": sizes}}
    found = ensemble(tool("x", seeing, schema=schema, effect="write"), name="io")
    # A person sees the arguments with their defaults, and may write them in another order, or leave the defaults out.
    edits: list[dict[str, Any]] = [{"size": 3, "path": "a"}, {"path": "a"}, {"path": "a", "size": 4}]
    execution = Execution(confirmer=Person(*map(Edit, edits)), recorder=recording)
    results = [await run(execution, found, path="a") for _ in edits]
    assert [one.report.edited for one in results] == [None, None, {"path": "a", "size": 4}]
    assert [dict(one) for one in seeing.arguments] == [{"path": "a", "size": 3}] * 2 + [{"path": "a", "size": 4}]
    started = [one.invocation for one in recording.records if one.stage == "started"]
    assert [one and dict(one.arguments) for one in started] == [{"path": "a"}, {"path": "a"}, {"path": "a", "size": 4}]


async def test_always_is_for_one_tool_and_weakens_no_rule() -> None:
    seeing, person = Seeing(), Person(Approve(always=True), Approve(always=True), Approve(), Deny())
    found = ensemble(writer(seeing), writer(seeing, "y"), name="io")
    execution = Execution(rules=Rules(ask=("io.x(path=docs/**)",)), confirmer=person)
    for path in ("a", "b"):
        assert (await run(execution, found, path=path)).error is None
    assert len(person.requests) == 1
    assert person.requests[0].waivable
    for _ in range(2):
        assert (await run(execution, found, path="docs/a")).error is None
    assert not person.requests[1].waivable
    assert len(person.requests) == 3
    other = await execution.execute(invoke("y", path="a"), ensembles=[found])
    assert fault_of(other).category == "denied"


@pytest.mark.parametrize("effect", ["write", "destructive"])
async def test_always_for_just_these_arguments(effect: str) -> None:
    person = Person(Approve(always=True, exact=effect == "write"), Deny())
    execution = Execution(confirmer=person)
    found = ensemble(writer(Seeing(), effect=effect))
    assert (await run(execution, found, path="a")).error is None
    assert (await run(execution, found, path="a")).error is None
    assert fault_of(await run(execution, found, path="b")).category == "denied"


@given(
    st.lists(st.tuples(st.sampled_from(["", "ada", "ada-1", "bob"]), st.sampled_from(["", "c", "c-1"])), max_size=12)
)
async def test_always_is_for_one_owner_and_one_conversation(calls: list[tuple[str, str]]) -> None:
    person = Person(*[Approve(always=True)] * len(calls))
    execution = Execution(confirmer=person)
    found = ensemble(writer(Seeing()))
    for owner, conversation in calls:
        scope = Circumstances(owner=owner, conversation=conversation)
        result = await execution.execute(invoke("x", path="a"), ensembles=[found], circumstances=scope)
        assert result.error is None
    # Each owner was asked once in each conversation, and nobody's permission counted for another.
    assert [one.conversation for one in person.requests] == [one for _, one in dict.fromkeys(calls)]


async def test_what_is_taken_back_no_longer_runs_a_call_that_has_not_started() -> None:
    seeing, person = Seeing(), Person(Approve(always=True), Deny())
    execution, scope = Execution(confirmer=person), Circumstances(owner="ada", conversation="c")
    found = ensemble(writer(seeing))
    assert (await run(execution, found, scope, path="a")).error is None
    ready = execution.prepare(invoke("x", "b", path="b"), Offer.of([found]), scope)
    assert isinstance(ready, Prepared)
    assert await execution.confirm(ready, scope) == ready
    (allowance,) = execution.allowances.of("ada")["c"]
    assert execution.allowances.take_back("ada", "c", allowance.identifier)
    assert fault_of(execution.launch(ready, scope)).category == "permission"
    assert fault_of(await run(execution, found, scope, path="c")).category == "denied"
    assert [one["path"] for one in seeing.arguments] == ["a"]
    assert len(person.requests) == 2


async def test_autonomous_runs_what_no_rule_denies_and_destroys_nothing_unnamed() -> None:
    found = ensemble(writer(Seeing()), writer(Seeing(), "erase", effect="destructive"), name="io")
    execution = Execution(rules=Rules(deny=("io.x(path=docs/**)",)), confirmer=AutonomousConfirmer())
    assert (await run(execution, found, path="a")).error is None
    assert fault_of(await run(execution, found, path="docs/a")).category == "denied"
    erased = await execution.execute(invoke("erase", path="a"), ensembles=[found])
    assert 'approve = ["io.erase"]' in erased.text
    for destructive in (["io.erase"], "io.erase"):
        named = Execution(confirmer=AutonomousConfirmer(destructive=destructive))
        assert (await named.execute(invoke("erase", path="a"), ensembles=[found])).error is None


async def test_a_function_answers_plain_or_not() -> None:
    async def later(request: ConfirmationRequest) -> Answer:
        return Approve() if request.arguments["path"] == "a" else Deny("No.")

    def now(request: ConfirmationRequest) -> Answer:
        return Approve() if request.arguments["path"] == "a" else Deny("No.")

    for callback in (later, now):
        execution = Execution(confirmer=CallbackConfirmer(callback))
        assert (await run(execution, ensemble(writer(Seeing())), path="a")).error is None
        assert fault_of(await run(execution, ensemble(writer(Seeing())), path="b")).category == "denied"


def at(stage: str, record: Record) -> bool:
    return record.stage == stage


async def test_what_was_asked_and_answered_is_recorded_before_it_counts() -> None:
    recording = Recording()
    execution = Execution(confirmer=Person(Approve()), recorder=recording)
    assert (await run(execution, ensemble(writer(Seeing())), path="a")).error is None
    assert [one.stage for one in recording.records] == ["asked", "answered", "started", "finished"]
    asked, answered = recording.records[:2]
    assert asked.details["reason"] == "its effect is write"
    assert asked.details["effect"] == "write"
    assert len(str(asked.details["arguments_digest"])) == 64
    assert answered.details == {"answer": "approve"}
    for stage in ("asked", "answered"):
        seeing, failing = Seeing(), Recording(functools.partial(at, stage))
        execution = Execution(confirmer=Person(Approve()), recorder=failing)
        assert fault_of(await run(execution, ensemble(writer(seeing)), path="a")).code == "not_recorded"
        assert seeing.arguments == []


async def test_the_whole_call_is_shown() -> None:
    person = Person(Approve())
    definition = dataclasses.replace(
        writer(Seeing(), presets={"size": 7}, notes=("This cannot be undone.",)),
        preview=lambda context, arguments: f"+ {context.conversation} {arguments['path']}\n",
    )
    await run(Execution(confirmer=person), ensemble(definition), Circumstances(conversation="c"), path="a\x1b[2J")
    (request,) = person.requests
    shown = request.shown
    assert shown.arguments == '{"path":"a\\u001b[2J","size":7}'
    assert shown.change == "+ c a\x1b[2J\n"
    assert shown.arguments in shown.render(200)
    assert "Note: This cannot be undone." in shown.render()


# Answers that come later.


async def defer(execution: Execution, found: Ensemble, around: Circumstances) -> Deferred:
    prepared = execution.prepare(invoke("x", "a", path="a"), Offer.of([found]), around)
    assert isinstance(prepared, Prepared)
    deferred = await execution.confirm(prepared, around)
    assert isinstance(deferred, Deferred)
    return deferred


async def resume(execution: Execution, found: Ensemble, answer: Answer | Given, **arguments: Any) -> ResultCanister:
    around = Circumstances(conversation="c", answers={"a": answer})
    return await execution.execute(
        invoke("x", "a", **(arguments or {"path": "a"})), ensembles=[found], circumstances=around
    )


async def test_an_answer_given_later_counts_for_just_that_call() -> None:
    seeing, recording = Seeing(), Recording()
    found, around = ensemble(writer(seeing)), Circumstances(conversation="c")
    execution = Execution(confirmer=DeferredConfirmer(), recorder=recording)
    binding = (await defer(execution, found, around)).binding
    assert [one.details.get("answer") for one in recording.records] == [None, "defer"]
    stored = Binding(**dataclasses.asdict(binding))
    again = Execution(confirmer=DeferredConfirmer(), recorder=recording)
    assert (await resume(again, found, Given(answer=Approve(), binding=stored))).error is None
    assert [one.stage for one in recording.records[2:]] == ["answered", "started", "finished"]
    edited = await resume(again, found, Given(answer=Edit({"path": "b"}), binding=stored))
    assert edited.error is None
    assert [one["path"] for one in seeing.arguments] == ["a", "b"]
    changed = ensemble(dataclasses.replace(writer(seeing), description="Another."))
    for result in (
        await resume(again, found, Approve()),
        await resume(again, found, Given(answer=Approve())),
        await resume(again, found, Given(answer=Approve(), binding=stored), path="c"),
        await resume(again, changed, Given(answer=Approve(), binding=stored)),
        await resume(
            Execution(confirmer=DeferredConfirmer(), rules=Rules(ask=("git",))),
            found,
            Given(answer=Approve(), binding=stored),
        ),
        await resume(again, found, Given(answer=Defer(), binding=stored)),
    ):
        assert "No one can approve it now" in result.text
    assert "No." in (await resume(again, found, Deny("No."))).text
    assert len(seeing.arguments) == 2


# Attacks.

CHANGES = ("arguments", "invocation", "conversation", "tool", "definition", "gone", "replay", "stolen", "verdict")


async def approve(execution: Execution, found: Ensemble, around: Circumstances, identifier: str) -> Prepared:
    """A call of docs/a that was approved."""
    prepared = execution.prepare(invoke("x", identifier, path="docs/a"), Offer.of([found]), around)
    assert isinstance(prepared, Prepared)
    confirmed = await execution.confirm(prepared, around)
    assert isinstance(confirmed, Prepared)
    return confirmed


async def test_no_swap_replay_or_stale_definition_runs() -> None:
    """Uses the approval of a call for another call, again, or after a change."""
    seeds = random.Random(20)
    executions = 0
    for number, change in zip(range(count(1_000)), itertools.cycle(CHANGES), strict=False):
        seeing = Seeing()
        found = ensemble(writer(seeing), writer(seeing, "y"))
        execution = Execution(confirmer=CallbackConfirmer(lambda _: Approve()))
        around = Circumstances(conversation=f"c{number}")
        prepared = await approve(execution, found, around, f"i{number}")
        match change:
            case "arguments":
                value = seeds.choice(["docs/b", "docs/a ", "docs/\u0430", "", "DOCS/A"])
                attacked = seeds.choice(["replace", "mutate"])
                if attacked == "mutate":
                    prepared.arguments["path"] = value
                else:
                    prepared = dataclasses.replace(prepared, arguments={"path": value})
            case "invocation":
                other = dataclasses.replace(prepared.invocation, identifier="other")
                prepared = dataclasses.replace(prepared, invocation=other)
            case "conversation":
                around = dataclasses.replace(around, conversation="other")
            case "tool":
                prepared = dataclasses.replace(prepared, invoker=found.access_invoker("y"))
            case "definition":
                found._change(  # What a server's tools/list_changed does.
                    [dataclasses.replace(writer(seeing), description=f"{number}"), writer(seeing, "y")]
                )
            case "gone":
                found._change([writer(seeing, "y")])
            case "replay":
                execution.grants.redeem(prepared.token, execution._judge.bind(prepared, around))
            case "stolen":
                prepared = dataclasses.replace(prepared, token=seeds.choice(["", "x", prepared.token[:-1]]))
            case _:
                prepared = dataclasses.replace(
                    prepared, token="", verdict=dataclasses.replace(prepared.verdict, action="run")
                )
        launched = execution.launch(prepared, around)
        assert isinstance(launched, ResultCanister), change
        assert launched.error is not None
        assert launched.error.category == "permission", change
        executions += len(seeing.arguments)
    assert executions == 0


async def test_what_was_approved_runs_once_and_a_definition_that_only_comes_again_is_the_same() -> None:
    seeing = Seeing()
    found, around = ensemble(writer(seeing)), Circumstances(conversation="c")
    execution = Execution(confirmer=Person(Approve()))
    confirmed = await approve(execution, found, around, "a")
    found._change([writer(seeing)])
    assert not isinstance(execution.launch(confirmed, around), ResultCanister)
    again = execution.launch(confirmed, around)
    assert isinstance(again, ResultCanister)
    assert fault_of(again).code == "used_grant"


async def test_arguments_that_no_longer_fit_the_rule_that_approved_them_do_not_start() -> None:
    seeing = Seeing()
    found, around = ensemble(writer(seeing), name="io"), Circumstances()
    execution = Execution(rules=Rules(approve=("io.x(path=docs/**)",), deny=("io.x(path=secret/**)",)))
    for path in ("src/a", "secret/a"):
        prepared = execution.prepare(invoke("x", path="docs/a"), Offer.of([found]), around)
        assert isinstance(prepared, Prepared)
        prepared.arguments["path"] = path
        assert isinstance(execution.launch(prepared, around), ResultCanister)
    assert seeing.arguments == []


async def test_an_approval_ends_when_a_link_in_a_path_leads_elsewhere(user: User) -> None:
    for name in ("shown", "other"):
        (user.workspace / name).mkdir()
    link = user.workspace / "link"
    link.symlink_to("shown")

    def answer(request: ConfirmationRequest) -> Answer:
        del request
        link.unlink()
        link.symlink_to("other")
        return Approve()

    settings = {"ensembles": {"enabled": ["file_write"]}}
    async with assemble(settings, workspace=user.workspace, confirmer=CallbackConfirmer(answer)) as assembly:
        result = await assembly.execution.execute(
            invoke("write_file", "a", path="link/new.txt", content="x"), ensembles=assembly.ensembles
        )
    assert fault_of(result).code == "other_arguments"
    assert not (user.workspace / "other" / "new.txt").exists()
