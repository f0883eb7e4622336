"""Results that are too long to be shown: kept whole, privately, to be read on.

``store`` has the files that they are kept in, ``keeping`` what one call keeps and how its model is told.
"""

from ripieno.outputs.keeping import READER, Keeper
from ripieno.outputs.store import Outputs, Page

__all__ = ["READER", "Keeper", "Outputs", "Page"]
