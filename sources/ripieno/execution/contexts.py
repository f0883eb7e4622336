"""What an invocable learns of its call: the same for the call itself, and for a preview of it."""

from collections.abc import Callable
from typing import Any

from ripieno.ensembles import Context, Surroundings
from ripieno.execution.circumstances import Circumstances, Prepared


def context_of(
    prepared: Prepared,
    around: Circumstances,
    surroundings: Surroundings | None,
    *,
    progress: Callable[..., None],
    **more: Any,
) -> Context:
    """The context of a call. ``surroundings`` are those of the application, for an ensemble that has none of its own;
    ``more`` are fields of ``Context`` that a call has and a preview has not.
    """
    invoker = prepared.invoker
    ensemble = invoker.ensemble
    return Context(
        invoker=invoker,
        invocation=prepared.invocation.identifier,
        conversation=around.conversation,
        turn=around.turn,
        auxdata=around.auxdata,
        namespace=around.namespaces.setdefault(ensemble.name, {}),
        connection=ensemble.connection,
        configuration=invoker.configuration or ensemble.configuration,
        surroundings=ensemble.surroundings or surroundings,
        deadline=None,
        progress=progress,
        **more,
    )
