"""Ensembles: groups of invokers with one configuration, one connection and one life cycle.

``ensemble`` has the ensemble and its invokers, ``origin`` the contract of their origins, ``owner`` the task that owns a
connection, ``offers`` the tools of one turn, ``tool_search`` the tools that a model finds by searching.
"""

from ripieno.ensembles.ensemble import (
    Context,
    Definition,
    Ensemble,
    Foresight,
    Invocable,
    Invoker,
    Opened,
    Opener,
    ServerClaim,
    State,
)
from ripieno.ensembles.origin import Connected, Origin, Outcome
from ripieno.ensembles.surroundings import Surroundings
from ripieno.ensembles.threads import is_asynchronous

__all__ = [
    "Connected",
    "Context",
    "Definition",
    "Ensemble",
    "Foresight",
    "Invocable",
    "Invoker",
    "Opened",
    "Opener",
    "Origin",
    "Outcome",
    "ServerClaim",
    "State",
    "Surroundings",
    "is_asynchronous",
]
