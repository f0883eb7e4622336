"""Ensembles: groups of invokers that have one configuration, one connection and one life cycle.

``playing`` has the ensemble and its invokers, ``origins`` the places that they come from, ``surroundings`` what the
application lends them, ``outcomes`` what an invocable may return, ``watching`` who is told of changes.
"""

from ripieno.ensembles.origins import Connected, Origin
from ripieno.ensembles.outcomes import Outcome
from ripieno.ensembles.playing import (
    Claim,
    Context,
    Definition,
    Ensemble,
    Foresight,
    Invocable,
    Invoker,
    Opened,
    Opener,
    State,
    is_asynchronous,
)
from ripieno.ensembles.surroundings import Surroundings

__all__ = [
    "Claim",
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
    "State",
    "Surroundings",
    "is_asynchronous",
]
