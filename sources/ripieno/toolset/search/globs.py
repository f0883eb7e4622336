"""Globs that a model gives to a search: what is taken for one, and what is said of the others."""

import functools

from ripieno.descriptors.rules.globs import Matcher, translate
from ripieno.exceptions import ValidationFault

#: Characters of a glob, and bytes that it may have when compiled.
_LENGTH, _SIZE = 1000, 256 * 1024


@functools.lru_cache(maxsize=256)
def matcher(glob: str, *, names: bool) -> Matcher:
    """Whether a path fits: all of it, or with ``names``, for a glob without slashes, its last name.

    Errors: ``ValidationFault`` that says where the glob is broken.
    """
    check(glob)
    expression = translate(glob.strip("/"))
    if names and "/" not in glob:
        expression = f"(?:.*/)?{expression}"
    return Matcher([expression])


def check(glob: str) -> None:
    """Errors: ``ValidationFault`` for what is no glob."""
    try:
        if not glob.strip("/"):
            raise ValueError("it is empty")
        if len(glob) > _LENGTH:
            raise ValueError(f"it has more than {_LENGTH} characters")
        if "\0" in glob or "\n" in glob:
            raise ValueError("no path has a NUL or a line end")
        glob.encode()
        translate(glob.strip("/"))
        Matcher([translate(glob)], _SIZE)
    except ValueError as error:
        reason = str(error) if type(error) is ValueError else "it is too large or has a range that is none"
        raise ValidationFault(
            f"The glob {glob[:200]!r} cannot be read: {reason}.",
            code="invalid_glob",
            suggestion="Globs are like '*.py', 'src/**/*.{js,ts}' or 'test_[a-z]*'; a backslash takes what follows it.",
        ) from None
