"""What controls git and ripieno: by names, wherever they are, existing or not; nobody writes those here."""

import unicodedata
from collections.abc import Callable

from ripieno.exceptions import PermissionFault, ResourceFault


def fold(name: str) -> str:
    """A name as file systems compare that know no case, or leave out what cannot be seen."""
    if name.isascii():
        return name.lower()
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold()


def controls(name: str) -> bool:
    """Whether a file or folder of that name controls git or ripieno, wherever it is.

    All of ``.git`` does, not only its configuration, hooks and attributes: other files in it name where those
    are, and ``.git`` itself may be a file that does.
    """
    folded = fold(name)
    return folded in (".git", "ripieno.toml") or folded.endswith(".lock.toml")


def guards(name: str, *, parents: bool, has: Callable[[str], bool]) -> bool:
    """Whether a name must not be written where it stands: beneath ``parents``, or in the workspace itself.

    ``has`` says whether a name stands beside it: ``ensembles`` counts beside a ``ripieno.toml``.
    """
    return controls(name) or (fold(name) == "ensembles" and (not parents or has("ripieno.toml")))


def guarded(path: str, name: str) -> PermissionFault:
    """``name``, in or beneath ``path``, is one of those."""
    return PermissionFault(
        f"{path!r} cannot be changed: {name!r} controls what programs and tools do here.",
        code="control_file",
        suggestion="Ask the user to make this change.",
    )


def changed(path: str) -> ResourceFault:
    """Somebody exchanged something while it was being opened or replaced."""
    return ResourceFault(f"{path!r} was changed while it was being used.", code="conflict", suggestion="Try again.")
