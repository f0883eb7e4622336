"""Schema lowering: a JSON Schema converted to the dialect of a wire, with a list of losses.

A lowered schema never accepts more than the original, except where a loss reports it. ``Schema.coerce`` converts what
a model then sends back: null for a property that is absent, lists of pairs for maps, text for JSON.
"""

from ripieno.schemas.lowering.dialects import PLAIN, Dialect, Limits
from ripieno.schemas.lowering.losses import Loss, Lowered
from ripieno.schemas.lowering.lowering import lower

__all__ = ["PLAIN", "Dialect", "Limits", "Loss", "Lowered", "lower"]
