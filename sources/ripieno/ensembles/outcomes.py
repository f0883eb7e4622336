"""What an invocable gives back, where a plain value does not say enough."""

import dataclasses

from ripieno.canisters.faults import Change


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an invocable may return when its content alone does not say enough.

    ``content`` is a string, JSON, a content, or a sequence of contents. Sizes are in bytes. ``sandbox`` is the name of
    the one that a program ran in.
    """

    content: object = ""
    exit_code: int | None = None
    changes: tuple[Change, ...] = ()
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    total_bytes: int | None = None
    sandbox: str | None = None
