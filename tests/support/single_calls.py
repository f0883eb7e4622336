"""One call of one tool, and a tool that keeps its arguments."""

from collections.abc import Callable
from typing import Any

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.ensembles import Context, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.execution import Circumstances, Execution, Prepared
from ripieno.execution.call import Call, settle
from tests.support.scripted_models import Listening, ensemble, invoke, tool

EVERYTHING = Rules(approve=("mine.look",))


def launch(
    execution: Execution,
    tools: Ensemble,
    invocation: InvocationCanister,
    around: Circumstances | None = None,
    **more: Any,
) -> Call:
    """A call that has just started."""
    around = around or Circumstances()
    prepared = execution.prepare(invocation, Offer.of([tools]), around)
    assert isinstance(prepared, Prepared)
    call = execution.launch(prepared, around, **more)
    assert isinstance(call, Call)
    return call


def begin(invocable: Any, *, listening: Listening | None = None, seconds: float | None = None, **policy: Any) -> Call:
    """A call of a tool of this function that has just started."""
    execution = Execution(rules=EVERYTHING, surroundings=listening.surroundings if listening else None)
    return launch(execution, ensemble(tool("look", invocable, **policy)), invoke("look"), seconds=seconds)


def returning(value: object) -> Any:
    """A tool that returns a value."""

    async def look(context: Any, arguments: Any) -> object:
        return value

    return look


def raising(error: Callable[[], BaseException]) -> Any:
    """A tool that raises an error."""

    async def look(context: Any, arguments: Any) -> object:
        raise error()

    return look


async def result_of(invocable: Any, **settings: Any) -> ResultCanister:
    call = begin(invocable, **settings)
    await settle((call,))
    return call.result.result()


def category(result: ResultCanister) -> str | None:
    return None if result.error is None else result.error.category


ADD = {
    "properties": {"left": {"type": "integer"}, "right": {"type": "integer", "default": 10}, "tags": {"type": "array"}},
    "required": ["left"],
    "additionalProperties": False,
}


class Seeing:
    """A tool that keeps its arguments and contexts."""

    def __init__(self) -> None:
        self.arguments: list[dict[str, Any]] = []
        self.contexts: list[Context] = []

    async def __call__(self, context: Context, arguments: dict[str, Any]) -> str:
        self.arguments.append(arguments)
        self.contexts.append(context)
        return "seen"
