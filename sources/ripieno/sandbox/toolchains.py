"""Toolchains that are usually installed in a home: their readable paths, and the variables that locate them.

Programs have a private home, in which rustup and pyenv would not find themselves. Only the programs of such a folder
are readable: cargo's may hold credentials, so cargo gets its own in the private home.
"""

import os
from collections.abc import Iterator, Mapping

from ripieno.sandbox.paths import is_beneath
from ripieno.values import Value

#: A folder: the variable that names it, and its default name in the home.
_Folder = tuple[str, str]
_CARGO, _RUSTUP = ("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")
_PYENV, _RBENV, _NVM = ("PYENV_ROOT", ".pyenv"), ("RBENV_ROOT", ".rbenv"), ("NVM_DIR", ".nvm")
#: Cargo's folders of downloaded crates and repositories.
_CRATES = ("registry", "git")


class _Toolchain(Value, kw_only=True):
    """Used when a folder of PATH is beneath ``on_path``. Programs read ``part`` of ``folder``.

    ``exported``: whether programs get its variable.
    """

    on_path: _Folder
    folder: _Folder
    part: str = ""
    exported: bool = True


_TOOLCHAINS = (
    _Toolchain(on_path=_CARGO, folder=_CARGO, part="bin", exported=False),
    _Toolchain(on_path=_CARGO, folder=_RUSTUP),
    _Toolchain(on_path=_PYENV, folder=_PYENV),
    _Toolchain(on_path=_RBENV, folder=_RBENV),
    _Toolchain(on_path=_NVM, folder=_NVM, part="versions", exported=False),
)


def toolchains(environment: Mapping[str, str], home: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables for programs, and true paths that they may read. ``environment`` and ``home`` are ours."""
    variables: dict[str, str] = {}
    places: list[str] = []
    path = [os.path.realpath(one) for one in environment.get("PATH", "").split(os.pathsep) if os.path.isabs(one)]
    for one in _TOOLCHAINS:
        place = os.path.join(_place(one.folder, environment, home), one.part).rstrip("/")
        # A variable may name a whole home, which is not granted.
        if not os.path.isdir(place) or is_beneath(os.path.realpath(home), [place]):
            continue
        if any(is_beneath(folder, [_place(one.on_path, environment, home)]) for folder in path):
            places.append(os.path.realpath(place))
            if one.exported:
                variables[one.folder[0]] = place
    return variables, tuple(places)


def crates(environment: Mapping[str, str], home: str) -> Iterator[tuple[str, str]]:
    """Cargo's downloads: their places in a private home, and their real places."""
    for name in _CRATES:
        place = os.path.join(_place(_CARGO, environment, home), name)
        if os.path.isdir(place):
            yield f"{_CARGO[1]}/{name}", os.path.realpath(place)


def _place(folder: _Folder, environment: Mapping[str, str], home: str) -> str:
    variable, name = folder
    return os.path.realpath(environment.get(variable) or os.path.join(home, name))
