"""What one call keeps of a text that is too long to be shown, and the words that say how to read on."""

import dataclasses
import logging

from ripieno.outputs.store import Outputs

#: The tool that reads what was kept, by its identity.
READER = "outputs.read_output"

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Keeps texts of one conversation. ``limit`` is in bytes of each; ``reader`` is what the model calls the tool."""

    outputs: Outputs
    conversation: str
    limit: int
    reader: str

    def keep(self, text: str, offset: int) -> str:
        """Keeps a text, and says how to read on from ``offset``; empty where it could not be kept.

        A disk that is full is no reason to lose a result.
        """
        try:
            kept = self.outputs.keep(text, self.conversation, self.limit)
        except OSError as error:
            _logger.warning("An output could not be kept: %s", error)
            return ""
        if kept is None:
            return ""
        handle, size = kept
        total = len(text.encode("utf-8", "backslashreplace"))
        only = f" The first {size} of its {total} bytes are kept." if size < total else ""
        return (
            f'Read on with {self.reader}(handle="{handle}", offset={offset}), or search it with '
            f'{self.reader}(handle="{handle}", pattern="…").{only}'
        )
