"""The tools of clients as offers: whoever sends the same tools again is not to wait until they are made ready again."""

from collections import OrderedDict

from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.offers import Offer

#: How many are kept.
_MOST = 64

_Tools = tuple[Definition, ...]


class Offers:
    """Keeps what was made of tools, for each caller apart. Protocols give the same tools for the same request."""

    def __init__(self) -> None:
        #: By caller and by the identity of the tools, which are kept with their offer: nothing else can have it then.
        self._kept: OrderedDict[tuple[str, int], tuple[_Tools, Offer]] = OrderedDict()

    def of(self, caller: str, tools: _Tools) -> Offer:
        """The offer of these tools, which the caller runs. Errors: ``InputError``."""
        key = (caller, id(tools))
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[1]
        offer = Offer(Ensemble.of_request(tools).invokers.values())
        self._kept[key] = (tools, offer)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return offer
