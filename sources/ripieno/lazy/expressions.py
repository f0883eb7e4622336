"""Regular expressions that are compiled when they are first used.

Compiling those of the modules that a command imports takes longer than the rest of these modules, and most commands use
few of them.
"""

import re
from typing import cast


class _Expression:
    """Stands for a compiled expression, whose attributes it takes over one by one."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        value: object = getattr(re.compile(self.pattern, self.flags), name)
        # The next access finds it without this method.
        setattr(self, name, value)
        return value


def expression(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression with the methods of a compiled one. The functions of ``re`` do not accept it.

    Errors: ``re.error`` at the first use.
    """
    return cast("re.Pattern[str]", _Expression(pattern, flags))
