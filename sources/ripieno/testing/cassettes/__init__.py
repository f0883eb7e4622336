"""Cassettes: runs recorded into a file, and replayed without a key, a network, a tool or a process.

``Recorder`` (``record.py``) records, ``Replay`` (``replay.py``) replays. ``file.py`` is the file format, ``values.py``
encodes values, ``requests.py`` compares requests, ``redaction.py`` finds secrets that span several events.
``recorded_parts.py`` wraps the parts of a recorded run and ``replayed_parts.py`` replaces those of a replayed one.
``recorder.py`` writes the lines of a run; ``player.py`` keeps their order.
"""

from ripieno.testing.cassettes.record import Recorder
from ripieno.testing.cassettes.replay import Replay

__all__ = ["Recorder", "Replay"]
