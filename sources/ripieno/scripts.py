"""For scripts: one call that assembles, conducts and comes back with the conversation."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer
from ripieno.assembly import assemble
from ripieno.canisters import Canister, Controls, Conversation
from ripieno.ensembles import Ensemble
from ripieno.exceptions import UsageError
from ripieno.standalone import connected


def run(
    what: str | Canister | Sequence[Canister] | Conversation,
    *,
    model: str | None = None,
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    ensembles: Sequence[Ensemble] = (),
    agent: str | None = None,
    supervisor: str | None = None,
    controls: Controls | None = None,
    confirmer: Confirmer | None = None,
    auxdata: Any = None,
) -> Conversation:
    """Conducts a conversation from code that is not asynchronous. ``ensembles`` play beside those of the configuration.

    Errors: ``UsageError`` where an event loop runs already (use ``assemble`` there); ``AssemblyFailure``, also for
    ``ensembles``; ``InputError`` for names that fit nothing; ``ProviderFailure``; ``ToolExecutionFailure``.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError("ripieno.run is for scripts; inside asynchronous code: async with ripieno.assemble() as …")

    async def conducted() -> Conversation:
        async with assemble(configuration, confirmer=confirmer) as assembly, connected(*ensembles) as own:
            return await assembly.conduct(
                what,
                model=model,
                agent=agent,
                ensembles=(*assembly.ensembles, *own),
                supervisor=supervisor,
                controls=controls,
                auxdata=auxdata,
            )

    return asyncio.run(conducted())
