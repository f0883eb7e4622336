"""Toolchains that live in a home by custom: what programs may read of them, and the variables that lead there.

Programs have a home of their own, in which rustup and pyenv would look for nothing but themselves in vain. What such a
folder has beside programs stays unread: cargo's may hold credentials, so cargo gets one of its own in the private home.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping

from ripieno.sandbox.paths import is_beneath

#: A folder: the variable that names it, and its name in the home without that.
_Folder = tuple[str, str]
_CARGO, _RUSTUP = ("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")
_PYENV, _RBENV, _NVM = ("PYENV_ROOT", ".pyenv"), ("RBENV_ROOT", ".rbenv"), ("NVM_DIR", ".nvm")
#: What cargo has beside programs and credentials: crates and repositories that were fetched.
_CRATES = ("registry", "git")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Toolchain:
    """One that is in use when a folder of PATH lies beneath ``on_path``. Programs read ``part`` of ``folder``."""

    on_path: _Folder
    folder: _Folder
    part: str = ""
    #: Whether programs are told where the folder is.
    told: bool = True


_TOOLCHAINS = (
    _Toolchain(on_path=_CARGO, folder=_CARGO, part="bin", told=False),
    _Toolchain(on_path=_CARGO, folder=_RUSTUP),
    _Toolchain(on_path=_PYENV, folder=_PYENV),
    _Toolchain(on_path=_RBENV, folder=_RBENV),
    _Toolchain(on_path=_NVM, folder=_NVM, part="versions", told=False),
)


def toolchains(environment: Mapping[str, str], home: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables for programs, and true paths that they may read. ``environment`` is ours, and so is ``home``."""
    variables: dict[str, str] = {}
    places: list[str] = []
    path = [os.path.realpath(one) for one in environment.get("PATH", "").split(os.pathsep) if os.path.isabs(one)]
    for one in _TOOLCHAINS:
        place = os.path.join(_place(one.folder, environment, home), one.part).rstrip("/")
        # A variable may say anything: whoever names a whole home is not given it.
        if not os.path.isdir(place) or is_beneath(os.path.realpath(home), [place]):
            continue
        if any(is_beneath(folder, [_place(one.on_path, environment, home)]) for folder in path):
            places.append(os.path.realpath(place))
            if one.told:
                variables[one.folder[0]] = place
    return variables, tuple(places)


def crates(environment: Mapping[str, str], home: str) -> Iterator[tuple[str, str]]:
    """What cargo has fetched: its place in a home of one's own, and where it is."""
    for name in _CRATES:
        place = os.path.join(_place(_CARGO, environment, home), name)
        if os.path.isdir(place):
            yield f"{_CARGO[1]}/{name}", os.path.realpath(place)


def _place(folder: _Folder, environment: Mapping[str, str], home: str) -> str:
    variable, name = folder
    return os.path.realpath(environment.get(variable) or os.path.join(home, name))
