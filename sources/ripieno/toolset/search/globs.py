"""Validation and compilation of a model's globs for a search."""

import functools

from ripieno.descriptors.rules.globs import Matcher, translate
from ripieno.exceptions import ValidationFault

#: Characters of a glob, and bytes of its compiled form.
_LENGTH, _SIZE = 1000, 256 * 1024


@functools.lru_cache(maxsize=256)
def matcher(glob: str, *, names: bool) -> Matcher:
    """Matches whole paths, or with ``names``, for a glob without slashes, their last names.

    Errors: ``ValidationFault`` with the defect of the glob.
    """
    check(glob)
    expression = translate(glob.strip("/"))
    if names and "/" not in glob:
        expression = f"(?:.*/)?{expression}"
    return Matcher([expression])


def check(glob: str) -> None:
    """Errors: ``ValidationFault`` for an invalid glob."""
    try:
        if not glob.strip("/"):
            raise ValueError("it is empty")
        if len(glob) > _LENGTH:
            raise ValueError(f"it has more than {_LENGTH} characters")
        if "\0" in glob or "\n" in glob:
            raise ValueError("it has a NUL or a line end")
        glob.encode()
        translate(glob.strip("/"))
        Matcher([translate(glob)], _SIZE)
    except ValueError as error:
        reason = str(error) if type(error) is ValueError else "it is too large or has an invalid range"
        raise ValidationFault(
            f"The glob {glob[:200]!r} cannot be read: {reason}.",
            code="invalid_glob",
            suggestion="Use globs like '*.py', 'src/**/*.{js,ts}' or 'test_[a-z]*'; a backslash escapes a character.",
        ) from None
