"""Schema lowering: one JSON Schema said in what a wire's readers understand of it, and what was lost on the way.

A lowered schema never asks for more than the original accepts, except where a loss says so. What a model then sends is
turned back by ``Schema.coerce``: null for a property that is absent, lists of pairs for maps, text for JSON.
"""

from ripieno.schemas.lowering.dialects import PLAIN, Dialect, Limits
from ripieno.schemas.lowering.losses import Loss, Lowered
from ripieno.schemas.lowering.lowering import lower

__all__ = ["PLAIN", "Dialect", "Limits", "Loss", "Lowered", "lower"]
