"""Files of the user's state: for the user alone, and replaced as a whole."""

import os
import pathlib
import tempfile


def replace_private(path: pathlib.Path, text: str, *, durable: bool = False) -> None:
    """Puts a file of mode 0600 in the place of what was there: nobody ever finds half of it.

    Its folder is made, of mode 0700, where there is none. A ``durable`` one is on the disk when this returns.
    Errors: ``OSError``; what was there is there still.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def open_private(path: str, flags: int) -> int:
    """An opener for ``open``: a new file is for the user alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
