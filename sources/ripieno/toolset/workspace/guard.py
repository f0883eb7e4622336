"""Control files of git and ripieno, recognized by their names anywhere. Tools never write them."""

import unicodedata
from collections.abc import Callable

from ripieno.exceptions import PermissionFault, ResourceFault


def fold(name: str) -> str:
    """A name as compared by file systems that ignore case or invisible characters."""
    if name.isascii():
        return name.lower()
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold()


def controls(name: str) -> bool:
    """Whether a file or folder of that name controls git or ripieno, in any folder.

    All of ``.git`` does: besides configuration, hooks and attributes, it has files that name the places of these, and
    ``.git`` itself may be such a file.
    """
    folded = fold(name)
    return folded in (".git", "ripieno.toml") or folded.endswith(".lock.toml")


def guards(name: str, *, parents: bool, has: Callable[[str], bool]) -> bool:
    """Whether a name must not be written in its folder, which has ``parents`` or is the workspace itself.

    ``has`` looks for another name in that folder: ``ensembles`` is a control folder beside a ``ripieno.toml``.
    """
    return controls(name) or (fold(name) == "ensembles" and (not parents or has("ripieno.toml")))


def guarded(path: str, name: str) -> PermissionFault:
    """The fault of a change to the control file ``name``, in or beneath ``path``."""
    return PermissionFault(
        f"{path!r} cannot be changed: {name!r} controls what programs and tools do here.",
        code="control_file",
        suggestion="Ask the user to make this change.",
    )


def changed(path: str) -> ResourceFault:
    """The fault of a file that another program exchanged while it was opened or replaced."""
    return ResourceFault(f"{path!r} was changed while it was being used.", code="conflict", suggestion="Try again.")
