"""Trial connections of ensembles, each on its own, so that a failure hides no other."""

import asyncio
import dataclasses
import time
from collections.abc import Mapping

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters.events import Alert
from ripieno.cli.common.assembly import make_assembly
from ripieno.descriptors import EnsembleDescriptor, Policy
from ripieno.exceptions import AssemblyFailure, RipienoError, explain_absence
from ripieno.jsonvalues import EMPTY
from ripieno.values import Value


class Trial(Value, kw_only=True):
    """The outcome for one ensemble. ``reason``: why it could not start. ``fatal``: it prevents every start.

    ``names`` maps the exposed names of its tools to identities, ``policies`` identities to policies, ``left_out`` tools
    to reasons.
    """

    names: Mapping[str, str] = EMPTY
    policies: Mapping[str, Policy] = EMPTY
    left_out: Mapping[str, str] = EMPTY
    reason: str | None = None
    fatal: bool = False
    alerts: tuple[str, ...] = ()
    #: Seconds that connecting took; and the ``facts()`` of the connection, if it has any.
    seconds: float | None = None
    facts: Mapping[str, object] = EMPTY


async def try_ensembles(loaded: LoadedConfiguration) -> dict[str, Trial]:
    """Connects all enabled ensembles at once, and disconnects them. Returns the trials by name."""
    outcomes = await asyncio.gather(*(_try(loaded, descriptor) for descriptor in loaded.ensembles))
    trials: dict[str, Trial] = {}
    taken: dict[str, str] = {}
    for descriptor, trial in zip(loaded.ensembles, outcomes, strict=True):
        shared = {name: one for name, one in trial.names.items() if name in taken}
        clashes = [f"{one} and {taken[name]} have the same name, {name!r}" for name, one in shared.items()]
        trials[descriptor.name] = dataclasses.replace(trial, reason="; ".join(clashes), fatal=True) if shared else trial
        taken = {**trial.names, **taken}
    return trials


async def _try(loaded: LoadedConfiguration, descriptor: EnsembleDescriptor) -> Trial:
    alone = dataclasses.replace(
        loaded,
        configuration=dataclasses.replace(loaded.configuration, agents=EMPTY, enabled=(descriptor.name,), include=()),
        ensembles=(dataclasses.replace(descriptor, required=True),),
        profile=None,
        failures=(),
    )
    alerts: list[Alert] = []
    began = time.perf_counter()
    try:
        async with make_assembly(alone, alert=alerts.append) as assembly:
            off = [one.reason for one in assembly.absences if one.name == descriptor.name and one.file is None]
            if off:
                return Trial(reason=off[0])
            seconds = time.perf_counter() - began
            left_out = {name: why for ensemble in assembly.ensembles for name, why in ensemble.left_out.items()}
            facts = [one.connection.facts() for one in assembly.ensembles if hasattr(one.connection, "facts")]
            invokers = [one for ensemble in assembly.ensembles for one in ensemble.invokers.values()]
    except AssemblyFailure as failure:
        reasons = [explain_absence(descriptor.name, reason) for reason in failure.exceptions]
        return Trial(reason="; ".join(reasons), fatal=descriptor.required)
    except RipienoError as error:
        return Trial(reason=str(error), fatal=descriptor.required)
    return Trial(
        names={one.exposed: one.identity for one in invokers},
        policies={one.identity: one.policy for one in invokers},
        left_out=left_out,
        alerts=tuple(f"{alert.tool}: {alert.message}" if alert.tool else alert.message for alert in alerts),
        seconds=seconds,
        facts=facts[0] if facts else EMPTY,
    )
