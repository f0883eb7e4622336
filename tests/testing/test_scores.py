"""Scores: reading them, which turn is due, and what it says over actual results."""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Controls,
    ImageContent,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.controls import Format
from ripieno.canisters.events import ArgumentsDelta, ContentSealed, ReasoningDelta, TextDelta, TurnEnded, collect
from ripieno.canisters.faults import Fault
from ripieno.conducting import conduct
from ripieno.exceptions import ConfigurationInvalidity, ProviderRefusal
from ripieno.jsonvalues import freeze
from ripieno.testing import call, turn
from ripieno.testing.scores import Score
from ripieno.testing.scores.player import WHOLE, Answer, callable_names, events_of
from ripieno.testing.scores.turns import Turn
from ripieno.testing.wires import model_of
from tests.counts import count
from tests.support.scripted_models import ensemble, tool


def text_of(answer: Answer) -> str:
    return "".join(one.text for one in answer.canisters if isinstance(one, AssistantCanister))


def calls_of(answer: Answer) -> list[InvocationCanister]:
    return [one for one in answer.canisters if isinstance(one, InvocationCanister)]


def good(invocation: InvocationCanister, text: str) -> ResultCanister:
    return ResultCanister(invocation_id=invocation.identifier, content=(TextualContent(text=text),))


def bad(invocation: InvocationCanister, message: str) -> ResultCanister:
    return ResultCanister(invocation_id=invocation.identifier, error=Fault(category="resource", message=message))


def play(score: Score, say: Callable[[InvocationCanister], ResultCanister], tools: Sequence[str]) -> list[Canister]:
    """One prompt, played until an answer has no calls."""
    canisters: list[Canister] = [UserCanister.of("Go.")]
    while True:
        answer = score.answer(canisters, tools)
        canisters += answer.canisters
        if answer.finish != "invocations":
            return canisters
        canisters += [say(invocation) for invocation in calls_of(answer)]


# Reading.


def write(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read(tmp_path: pathlib.Path) -> None:
    text = """
[score]
name = "mine"
prompt = "Go."
pace = 0.5
[[turns]]
reasoning = "Hm."
[[turns.calls]]
tool = "look"
label = "seen"
arguments = { deep = [{ path = "a" }], n = 3 }
[[turns]]
expect = ["seen"]
text = "I saw {seen}."
pace = 0
finish = "length"
"""
    score = Score.read(write(tmp_path, text))
    assert (score.name, score.prompt, score.continues) == ("mine", "Go.", False)
    first, second = score.turns
    assert (first.reasoning, first.pace, first.finish) == ("Hm.", 0.5, None)
    assert first.calls == (call("look", "seen", deep=[{"path": "a"}], n=3),)
    assert second == turn("I saw {seen}.", expect=["seen"], finish="length")


HEADER = '[score]\nname = "x"\n'


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        pytest.param(HEADER + '[expect]\nanswer = "{seen}"\n[[turns]]\ntext = "a"\n', 3, "'seen'", id="expected label"),
        pytest.param(HEADER + '[expect.results]\nseen = "a"\n[[turns]]\ntext = "a"\n', 3, "'seen'", id="result"),
        pytest.param(HEADER + '[expect.files]\n"../a" = "b"\n[[turns]]\ntext = "a"\n', 4, "beneath", id="path outside"),
        pytest.param(HEADER + '[setup.files]\n"/a" = "b"\n[[turns]]\ntext = "a"\n', 4, "beneath", id="absolute path"),
        pytest.param(
            HEADER + '[[setup.programs]]\ndirectory = "a"\n[[turns]]\ntext = "a"\n', 3, "lacks argv", id="no program"
        ),
        pytest.param('[[turns]]\ntext = "a"\n', None, "lacks score", id="no header"),
        pytest.param(HEADER, None, "lacks turns", id="no turns"),
        pytest.param("turns = []\n" + HEADER, 1, "has no turns", id="empty turns"),
        pytest.param(HEADER + '[[turns]]\ntxt = "a"\n', 4, "'text'", id="misspelt key"),
        pytest.param(HEADER + '[[turns]]\ntool = "a"\n', 4, "[[turns.calls]]", id="key in the wrong table"),
        pytest.param(HEADER + "[[turns]]\n", 3, "has no text and no calls", id="empty turn"),
        pytest.param(HEADER + '[[turns]]\ntext = "a"\npace = -1\n', 5, "at least 0|from 0", id="negative pace"),
        pytest.param(HEADER + '[[turns]]\ntext = "a"\nfinish = "stopped"\n', 5, "'stop'", id="misspelt finish"),
        pytest.param(HEADER + '[[turns]]\ntext = "a"\nfinish = "invocations"\n', 5, "needs calls", id="finish"),
        pytest.param(HEADER + '[[turns]]\ntext = "a"\n[[turns.calls]]\n', 5, "lacks tool", id="call without a tool"),
        pytest.param(
            HEADER + '[[turns]]\n[[turns.calls]]\ntool = "a"\nlabel = "one"\n[[turns]]\ntext = "{oen.line:1}"\n',
            8,
            "'one'",
            id="misspelt label",
        ),
        pytest.param(
            HEADER + '[[turns]]\n[[turns.calls]]\ntool = "a"\nlabel = "one"\narguments = { b = "{one}" }\n',
            7,
            "no earlier turn",
            id="a label of the same turn",
        ),
        pytest.param(HEADER + '[[turns]]\ntext = "a"\non_error = "one"\n', 5, "no earlier turn", id="on_error"),
        pytest.param(HEADER + '[[turns]]\ntext = "a"\nexpect = ["one"]\n', 5, "no earlier turn", id="expect"),
        pytest.param(HEADER + '[[turns]]\ntext = "a {b"\n', 4, "{{", id="a lone brace"),
        pytest.param(
            HEADER
            + '[[turns]]\n[[turns.calls]]\ntool = "a"\nlabel = "one"\n[[turns.calls]]\ntool = "b"\nlabel = "one"\n',
            9,
            "two calls are labelled 'one'",
            id="a label twice",
        ),
        pytest.param(
            HEADER + '[[turns]]\n[[turns.calls]]\ntool = "a"\nlabel = "one"\n[[turns]]\ntext = "{one.lines:0}"\n',
            8,
            "{one.lines:0}",
            id="a line that cannot be",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: pathlib.Path, text: str, line: int | None, expected: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationInvalidity) as caught:
        Score.read(path)
    (problem,) = caught.value.problems
    assert problem.file is not None
    assert problem.file.endswith("mine.toml")
    assert problem.line == line or line is None
    assert any(part in str(problem) for part in expected.split("|"))


def test_all_problems_come_together(tmp_path: pathlib.Path) -> None:
    text = HEADER + '[[turns]]\ntext = "{a}"\nexpect = ["b"]\non_error = "c"\n[[turns]]\n'
    with pytest.raises(ConfigurationInvalidity) as caught:
        Score.read(write(tmp_path, text))
    assert [problem.line for problem in caught.value.problems] == [4, 5, 6, 7]


def test_turns_in_python_are_checked_too() -> None:
    with pytest.raises(ConfigurationInvalidity, match="no earlier turn has a call labelled 'b'"):
        Score.of_turns([turn("{b}")])
    with pytest.raises(ConfigurationInvalidity, match="has no turns"):
        Score.of_turns([])


# What a turn says.

JSON = '{"a": {"b/c": [1, "two", null]}, "text": "plain"}'


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{one}", "first\nsecond\n"),
        ("{one.line:2}!", "second!"),
        ("{one.line:3}", "[one has 2 lines, and no line 3]"),
        ("{one.lines:1}", "first"),
        ("{one.lines:9}", "first\nsecond"),
        ("{one.error}", "[one did not fail]"),
        ("{two.error}", "Nothing is there."),
        ("{two.line:1}", "Error: Nothing is there."),
        ("{json.json:/text}", "plain"),
        ("{json.json:/a/b~1c/1} {json.json:/a/b~1c/0} {json.json:/a/b~1c/2}", "two 1 null"),
        ("{json.json:/a}", '{"b/c":[1,"two",null]}'),
        ("{json.json:}", '{"a":{"b/c":[1,"two",null]},"text":"plain"}'),
        ("{json.json:/a/b~1c/7}", "[json has nothing at /a/b~1c/7]"),
        ("{json.json:/a/b~1c/01}", "[json has nothing at /a/b~1c/01]"),
        ("{one.json:/text}", "[one is not JSON]"),
        ('{{"a": {{}}}}', '{"a": {}}'),
        ("{{one}} {one.line:1}", "{one} first"),
    ],
)
def test_texts_quote_results(template: str, expected: str) -> None:
    results = {"one": "first\nsecond\n", "json": JSON}
    score = Score.of_turns(
        [
            turn(calls=[call("look", "one"), call("look", "two"), call("look", "json")]),
            turn(template, calls=[call("say", text=template, deep=[{"more": template}], number=3)]),
        ]
    )
    canisters: list[Canister] = [UserCanister.of("Go."), *score.answer([], ["look"]).canisters]
    one, two, three = calls_of(score.answer([], ["look"]))
    canisters += [good(one, results["one"]), bad(two, "Nothing is there."), good(three, JSON)]
    answer = score.answer(canisters, ["say"])
    assert text_of(answer) == expected
    assert calls_of(answer)[0].arguments == {"text": expected, "deep": ({"more": expected},), "number": 3}


MENDING = Score.of_turns(
    [
        turn("Reading.", calls=[call("read", "wrong", path="a")]),
        turn("That failed: {wrong.error}", on_error="wrong", calls=[call("read", "right", path="b")]),
        turn("It says {right}.", expect=["right"]),
    ]
)


def test_a_turn_for_an_error_is_left_out_when_there_is_none() -> None:
    played = play(MENDING, lambda invocation: good(invocation, "x"), ["read"])
    texts = [one.text for one in played if isinstance(one, AssistantCanister)]
    assert texts == ["Reading.", "Turn 3 of the score expects 'right' to have succeeded, but it has no result."]


def test_a_wire_without_a_mark_for_errors_shows_them_in_the_text() -> None:
    played = play(MENDING, lambda invocation: good(invocation, "Error: It is gone.\nTry another."), ["read"])
    assert "That failed: It is gone." in [one.text for one in played if isinstance(one, AssistantCanister)]
    last = played[-1]
    assert isinstance(last, AssistantCanister)
    assert last.text == "Turn 3 of the score expects 'right' to have succeeded, but it failed: It is gone."


def test_past_its_end_a_score_says_so() -> None:
    score = Score.of_turns([turn("One.")], name="short")
    canisters: list[Canister] = [UserCanister.of("Go.")]
    for expected in ("One.", *["The score 'short' is over: its only turn is played."] * 2):
        answer = score.answer(canisters, [])
        assert (text_of(answer), answer.finish) == (expected, "stop")
        # Whoever asks on without a word: the supervisor's makes it another message.
        canisters += [*answer.canisters, SupervisorCanister.of("Go on.")]


def test_a_result_that_is_missing_is_said() -> None:
    score = Score.of_turns([turn(calls=[call("look"), call("look", "seen")]), turn("I saw {seen}.")])
    asked = score.answer([], ["look"])
    answer = score.answer([*asked.canisters, good(calls_of(asked)[0], "another")], [])
    assert text_of(answer) == "I saw [seen has no result]."


def test_images_of_results_are_no_new_prompt() -> None:
    """Some wires carry them as a user message of their own, after the results."""
    score = Score.of_turns([turn(calls=[call("look", "seen")]), turn("I saw {seen}.")])
    asked = score.answer([], ["look"])
    image = UserCanister(content=(ImageContent(data=b"x", mime_type="image/png"),))
    canisters: list[Canister] = [UserCanister.of("Go."), *asked.canisters, good(calls_of(asked)[0], "it"), image]
    assert text_of(score.answer(canisters, [])) == "I saw it."
    alone = score.answer([image], ["look"])
    assert [one.identifier for one in calls_of(alone)] == ["call_1_1"]


def test_a_new_user_message_begins_again_or_goes_on() -> None:
    turns = [turn(calls=[call("look", "seen")]), turn("Saw {seen}."), turn("More.")]
    for continues, expected in ((False, ""), (True, "More.")):
        score = Score.of_turns(turns, continues=continues)
        canisters = play(score, lambda invocation: good(invocation, "it"), ["look"])
        answer = score.answer([*canisters, UserCanister.of("And?")], ["look"])
        assert text_of(answer) == expected
    again = score = Score.of_turns(turns)
    first = play(score, lambda invocation: good(invocation, "it"), ["look"])
    identifiers = [one.identifier for one in first if isinstance(one, InvocationCanister)]
    second = calls_of(again.answer([*first, UserCanister.of("Again.")], ["look"]))
    assert identifiers == ["call_1_1"]
    assert [one.identifier for one in second] == ["call_3_1"]


PERSON = freeze({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}})


@pytest.mark.parametrize(
    ("text", "form", "reason"),
    [
        ("Ada", Format(kind="json_object"), "it is not JSON"),
        ("[1]", Format(kind="json_object"), "it is not a JSON object"),
        ('{"age": 36}', Format(kind="json_schema", schema=PERSON), "name"),
        ('{"age": 36}', Format(kind="json_object"), None),
        ('{"name": "Ada"}', Format(kind="json_schema", schema=PERSON), None),
        ("Ada", None, None),
    ],
)
async def test_an_answer_has_the_form_that_the_request_asks_for(
    text: str, form: Format | None, reason: str | None
) -> None:
    """As with a provider that enforces it, and for any wire: a call needs no form, the last answer does."""
    model = model_of([turn(calls=[call("look")]), turn(text.replace("{", "{{").replace("}", "}}"))])
    run = conduct(model, "Who?", ensembles=[ensemble(tool("look"))], controls=Controls(format=form))
    if reason is None:
        assert (await run).text == text
        return
    with pytest.raises(ProviderRefusal, match=f"turn 2 of the score does not have the form.*{reason}"):
        await run


def test_controls_say_which_tools_may_be_called() -> None:
    assert callable_names(["a", "b"], Controls()) == ["a", "b"]
    assert callable_names(["a", "b"], Controls(allowed_tools=("b", "c"))) == ["b"]
    assert callable_names(["a", "b"], Controls(tool_choice="none")) == ()


# Laws.

LABELS = ("a", "b", "c", "d", "e", "f")


@st.composite
def scores(draw: st.DrawFn) -> Score:
    """A score whose turns refer to any labels before them."""
    labels = iter(LABELS)
    known: list[str] = []
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 5))):
        new = list(itertools.islice(labels, draw(st.integers(0, 2))))
        quoted = draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
        turns.append(
            Turn(
                text=draw(st.text("xy é\n", max_size=40)) + "".join(f"{{{label}}}" for label in quoted),
                reasoning=draw(st.sampled_from(["", "Hm. Let me think of it for a while."])),
                calls=tuple(call("tool", label, turn=number, quoted=[f"{{{one}}}" for one in quoted]) for label in new),
                on_error=draw(st.sampled_from([None, *known])),
                # Without calls a turn ends the run; for the law it must be possible to ask on.
                finish="invocations" if new else "stop",
            )
        )
        known += new
    return Score.of_turns(turns, name="any", continues=draw(st.booleans()))


class Player:
    """The same rules, kept in a state: what a model that remembers would do."""

    def __init__(self, score: Score, failing: set[str]) -> None:
        self.left = list(score.turns)
        self.failing = failing
        self.called: set[str | None] = set()

    def play(self) -> Turn | None:
        while self.left:
            turn = self.left.pop(0)
            if turn.on_error is None or turn.on_error in self.failing & self.called:
                self.called.update(call.label for call in turn.calls)
                return turn
        return None


@settings(max_examples=count(2000))
@given(scores(), st.lists(st.booleans(), min_size=len(LABELS), max_size=len(LABELS)), st.booleans())
def test_answers_follow_from_the_canisters_alone(score: Score, goods: list[bool], renamed: bool) -> None:
    """Any results, and identifiers that somebody changed on the way; a player with a state is the oracle."""
    failing = {label for label, is_good in zip(LABELS, goods, strict=True) if not is_good}
    player = Player(score, failing)
    canisters: list[Canister] = [UserCanister.of("Go.")]
    while True:
        answer = score.answer(canisters, {"tool"})
        assert answer == dataclasses.replace(score).answer(tuple(canisters), ["tool", "other"])
        due = player.play()
        if due is None:
            assert "is over" in text_of(answer)
            return
        assert [one.arguments["turn"] for one in calls_of(answer)] == [one.arguments["turn"] for one in due.calls]
        assert answer.reasoning == due.reasoning
        if not due.calls:
            return
        sent = [
            dataclasses.replace(one, identifier=f"other_{len(canisters)}_{place}") if renamed else one
            for place, one in enumerate(calls_of(answer))
        ]
        results = [
            bad(one, "x") if planned.label in failing else good(one, "y")
            for one, planned in zip(sent, due.calls, strict=True)
        ]
        canisters += [answer.canisters[0], *sent, *reversed(results)]


@settings(max_examples=count(2000))
@given(scores(), st.integers(1, 50) | st.just(WHOLE))
def test_events_collect_to_the_answer(score: Score, chunk: int) -> None:
    answer = score.answer([UserCanister.of("Go.")], {"tool"})
    events = list(events_of(answer, model="m", chunk=chunk))
    kept = [one for one in events if not isinstance(one, ContentSealed) or isinstance(one.content, TextualContent)]
    assert collect(kept) == answer.canisters
    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == text_of(answer)
    assert "".join(one.text for one in events if isinstance(one, ReasoningDelta)) == answer.reasoning
    for index, invocation in enumerate(calls_of(answer)):
        pieces = [one.text for one in events if isinstance(one, ArgumentsDelta) and one.index == index]
        assert "".join(pieces) == invocation.raw
        assert max(map(len, pieces)) <= chunk
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].finish == answer.finish
