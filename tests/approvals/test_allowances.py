"""Allowances: a law over all uses, with a plain model of what is allowed; and the words before one is given."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.approvals.allowances import Allowance, Allowances, ways
from ripieno.canisters.faults import Effect


@dataclasses.dataclass(frozen=True)
class Of:
    owner: str
    conversation: str


SCOPES = st.builds(Of, st.sampled_from(["", "ada"]), st.sampled_from(["a", "b"]))
CALLS = st.tuples(
    st.sampled_from(["mine.write", "mine.erase"]), st.sampled_from([{}, {"path": "a"}, {"path": "b"}, {"n": 1.5}])
)
EFFECTS: dict[str, Effect] = {"mine.write": "write", "mine.erase": "destructive"}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SCOPES, CALLS, st.booleans()),
        st.tuples(st.just("take back"), SCOPES, st.integers(0, 3), st.none()),
        st.tuples(st.just("forget"), SCOPES, st.none(), st.none()),
    ),
    max_size=12,
)


@given(steps=STEPS, asked=st.lists(st.tuples(SCOPES, CALLS), min_size=1))
def test_a_call_is_allowed_if_it_was_in_this_scope_and_not_taken_back(steps: Any, asked: Any) -> None:
    allowances = Allowances()
    expected: list[tuple[Of, str, Any]] = []
    for kind, scope, what, exact in steps:
        if kind == "add":
            tool, arguments = what
            allowances.add(scope, allowances.make(tool, EFFECTS[tool], arguments, exact=exact))
            one = (scope, tool, arguments if exact or tool == "mine.erase" else None)
            expected = [*expected, *([] if one in expected else [one])]
        elif kind == "forget":
            allowances.forget(scope.owner, scope.conversation)
            expected = [one for one in expected if one[0] != scope]
        else:
            listed: Sequence[Allowance] = allowances.of(scope.owner).get(scope.conversation, ())
            mine = [one for one in expected if one[0] == scope]
            assert [one.tool for one in listed] == [tool for _, tool, _ in mine]
            if what < len(listed):
                assert allowances.take_back(scope.owner, scope.conversation, listed[what].identifier)
                expected.remove(mine[what])
            else:
                assert not allowances.take_back(scope.owner, scope.conversation, "unknown")
    for scope, (tool, arguments) in asked:
        allowed = any(one in expected for one in ((scope, tool, None), (scope, tool, arguments)))
        assert allowances.allows(scope, tool, EFFECTS[tool], arguments) is allowed


@pytest.mark.parametrize("effect", get_args(Effect))
def test_the_words_are_those_of_the_effect(effect: Effect) -> None:
    offered = ways("mine.write\u202e", effect)
    assert [way.exact for way in offered] == ([True] if effect == "destructive" else [False, True])
    for way in offered:
        words = "exactly these" if way.exact else "any"
        assert way.calls == f"Later calls of mine.write\\u202e with {words} arguments"
        assert "in this conversation only" in way.terms
        assert "you take it back" in way.terms
