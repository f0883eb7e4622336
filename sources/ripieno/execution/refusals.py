"""The words for a call that is not run."""

from collections.abc import Sequence

from frozendict import frozendict

from ripieno.canisters.faults import Fault, Report
from ripieno.ensembles import Invoker
from ripieno.schemas import SchemaProblem

NOT_RUN = Report(attempts=0)
UNRECORDED = Fault(
    category="resource",
    code="not_recorded",
    message="The call could not be recorded, and so it was not run.",
    recoverable=False,
    suggestion="Tell the user that the journal of calls cannot be written.",
)


def unfit(invoker: Invoker, problems: Sequence[SchemaProblem]) -> Fault:
    """Arguments that do not fit their schema."""
    return Fault(
        category="validation",
        message=" ".join(problem.message for problem in problems),
        code=problems[0].code,
        details=frozendict({"parameters": tuple(problem.parameter for problem in problems)}),
        suggestion=f"Mend the arguments of {invoker.name!r} and call it again.",
    )


def denied(invoker: Invoker, advice: str) -> Fault:
    """What a rule or a person does not allow; ``advice`` is for the model."""
    return Fault(
        category="denied",
        message=f"The call of {invoker.name!r} was denied.",
        recoverable=False,
        suggestion=advice or None,
    )
