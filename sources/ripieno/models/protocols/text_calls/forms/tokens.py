"""Forms of special tokens: ``<|python_tag|>`` (Llama 3), the sections of DeepSeek, Kimi and Step-3."""

# ruff: noqa: RUF001  models write these characters

import re
from collections.abc import Callable, Sequence

from ripieno.models.protocols.text_calls.forms.brackets import python_call
from ripieno.models.protocols.text_calls.forms.form import Form, Variant
from ripieno.models.protocols.text_calls.grammar import NAME, SPACE, Balanced, Closed, Empty, Tools, sequence
from ripieno.models.protocols.text_calls.values import Found, objects_in

_PYTHON_TAG = "<|python_tag|>"
#: ``function`` and fenced arguments (V3, R1), or the name alone (V3.1).
_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>\s*(?:function<｜tool▁sep｜>)?([^<\s]+)\s*(?:<｜tool▁sep｜>|```json)\s*(\{.*?)\s*(?:```\s*)?"
    r"<｜tool▁call▁end｜>",
    re.DOTALL,
)
#: The name is part of an identifier, ``functions.name:0``.
_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*(?:functions\.)?(\S+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*(.*?)\s*"
    r"<\|tool_call_end\|>",
    re.DOTALL,
)


def _python_tag(raw: str, _: Tools) -> Sequence[Found] | None:
    """An object with ``name`` and ``parameters``, or ``tool.call(a=1)``, the form of built-in tools."""
    text = raw.removeprefix(_PYTHON_TAG)
    if text.lstrip().startswith("{"):
        return objects_in(text)
    found = python_call(text)
    return None if found is None else [(found[0].removesuffix(".call"), found[1])]


def _section(name: str, opener: str, call: str, end: str) -> Form:
    """A wrapper of calls, each of which begins with ``call`` and is read by its own form."""
    return Form(
        name=name,
        opener=opener,
        variants=lambda _: (Variant(head=sequence(SPACE, (call,)), body=Empty, ends=(end,)),),
    )


def _read_by(pattern: re.Pattern[str]) -> Callable[[str, Tools], Sequence[Found] | None]:
    """Reads one call: the pattern has the groups name and arguments."""

    def read(raw: str, _: Tools) -> Sequence[Found] | None:
        found = pattern.fullmatch(raw)
        return None if found is None else [(found[1], found[2])]

    return read


_deepseek, _kimi = _read_by(_DEEPSEEK), _read_by(_KIMI)
FORMS = (
    Form(
        name="python_tag",
        opener=_PYTHON_TAG,
        variants=lambda _: (
            Variant(
                head=sequence(SPACE, ("{",)),
                body=Balanced,
                read=_python_tag,
                ends=("<|eom_id|>", "<|eot_id|>"),
                # Another call of the same turn.
                following=Variant(
                    head=sequence(SPACE, (";",), SPACE, ("{",)),
                    body=Balanced,
                    read=lambda raw, _: objects_in(raw.lstrip().removeprefix(";")),
                ),
            ),
            Variant(
                head=sequence(SPACE, NAME, ("(",)),
                body=lambda: Balanced(python=True),
                read=_python_tag,
                ends=("<|eom_id|>", "<|eot_id|>"),
            ),
        ),
        examples=(
            '<|python_tag|>{"name": "read", "parameters": {"path": "a.txt"}}',
            '<|python_tag|>read.call(path="a.txt")',
        ),
    ),
    Form(
        name="deepseek",
        opener="<｜tool▁call▁begin｜>",
        variants=lambda _: (
            Variant(
                head=sequence(("function",), ("<｜tool▁sep｜>",), NAME, SPACE, ("```json",), SPACE, ("{",)),
                body=lambda: Closed("<｜tool▁call▁end｜>"),
                read=_deepseek,
            ),
            Variant(
                head=sequence(SPACE, NAME, ("<｜tool▁sep｜>",), SPACE, ("{",)),
                body=lambda: Closed("<｜tool▁call▁end｜>"),
                read=_deepseek,
            ),
        ),
        examples=(
            '<｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{"path": "a.txt"}\n```<｜tool▁call▁end｜>',
            '<｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "a.txt"}<｜tool▁call▁end｜>',
        ),
    ),
    _section("deepseek_section", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁calls▁end｜>"),
    Form(
        name="kimi",
        opener="<|tool_call_begin|>",
        variants=lambda _: (
            Variant(
                head=sequence(SPACE, NAME, SPACE, ("<|tool_call_argument_begin|>",), SPACE, ("{",)),
                body=lambda: Closed("<|tool_call_end|>"),
                read=_kimi,
            ),
        ),
        examples=('<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "a.txt"}<|tool_call_end|>',),
    ),
    _section("kimi_section", "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_calls_section_end|>"),
    # Step-3: the calls in these wrappers are tags (``<steptml:invoke``).
    _section("step_section", "<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_calls_end｜>"),
    Form(
        name="step_call",
        opener="<｜tool_call_begin｜>",
        variants=lambda _: (
            Variant(
                head=sequence(SPACE, ("function",), ("<｜tool_sep｜>",), SPACE, ("<steptml:invoke",)),
                body=Empty,
                ends=("<｜tool_call_end｜>",),
            ),
        ),
    ),
)
