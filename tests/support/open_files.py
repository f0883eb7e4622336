"""The open files of a process, as Linux lists them."""

import contextlib
import pathlib


def open_files(process: int | str) -> dict[str, str]:
    """The targets of its descriptors, by number, without those that are closed meanwhile. This one is ``self``."""
    targets: dict[str, str] = {}
    for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets[link.name] = str(link.readlink())
    return targets
