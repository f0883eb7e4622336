"""Stored sign-ins: one private file for each issuer and resource. Does not import the SDK.

A file is named by hashes, so that its name reveals nothing. The first half is the resource's, because the issuer of a
resource is not known beforehand. An altered or damaged file is ignored with an alert.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import stat
import urllib.parse
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from msgspec.structs import force_setattr

from ripieno.canisters.events import Alert
from ripieno.canisters.serialization import deserialize, register, serialize
from ripieno.ensembles import Surroundings
from ripieno.exceptions import SerializationInvalidity
from ripieno.jsonvalues import freeze
from ripieno.storage.files import make_private, replace_private
from ripieno.values import Value

#: Bytes of the largest file that is read.
_LARGEST = 1024 * 1024
#: Seconds between two attempts to lock while another program renews, and the longest wait.
_PAUSE = 0.05
_PATIENCE = 20.0


class SignIn(Value, kw_only=True):
    """A sign-in. ``tokens`` and ``client`` are as in OAuth; ``expires_at`` is Unix time.

    ``wanted`` is a scope that a call lacked; the next sign-in requests it. ``metadata`` describes the issuer, and
    ``protected`` the resource. Errors: ``ValueError`` without a token or a client.
    """

    issuer: str
    resource: str
    tokens: Mapping[str, Any]
    client: Mapping[str, Any]
    expires_at: float | None = None
    metadata: Mapping[str, Any] | None = None
    protected: Mapping[str, Any] | None = None
    wanted: str | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "client", "metadata", "protected"):
            force_setattr(self, name, freeze(getattr(self, name)))
        if not isinstance(self.tokens.get("access_token"), str) or not isinstance(self.client.get("client_id"), str):
            raise ValueError("it lacks a token or a client")

    def __repr__(self) -> str:
        return f"<SignIn at {self.issuer} for {self.resource}>"

    @property
    def scope(self) -> str | None:
        """The granted scope."""
        return self.tokens.get("scope")

    @property
    def renewable(self) -> bool:
        """Whether it can be renewed without a person."""
        return "refresh_token" in self.tokens

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown."""
        held = [*map(self.tokens.get, ("access_token", "refresh_token")), self.client.get("client_secret")]
        return tuple(one for one in held if isinstance(one, str))


register({SignIn: "sign-in"})


class TokenStore:
    """The sign-ins of a user. Without a folder there are none."""

    def __init__(self, folder: pathlib.Path | None, alert: Callable[[Alert], None]) -> None:
        self.folder = folder
        self._alert = alert
        #: Reported messages: a file is read repeatedly.
        self._reported: set[str] = set()

    @classmethod
    def of(cls, surroundings: Surroundings) -> "TokenStore":
        """The store beside the user's pins. Surroundings without pins store nothing."""
        pins = surroundings.pins
        return cls(None if pins is None else pins.own.file.parent / "tokens", surroundings.alert)

    def find(self, resource: str, issuer: str | None = None) -> SignIn | None:
        """The latest sign-in at a resource, and with this issuer, if given."""
        found = self.every(resource, issuer)
        return found[0] if found else None

    def every(self, resource: str, issuer: str | None = None) -> tuple[SignIn, ...]:
        """All sign-ins at a resource, the latest first. A trailing slash of an issuer is ignored."""
        records = [one for file in self._files(resource) if (one := self._read(file, resource)) is not None]
        return tuple(one for one in records if issuer is None or one.issuer.rstrip("/") == issuer.rstrip("/"))

    def keep(self, record: SignIn) -> None:
        """Replaces the sign-in of its issuer and resource. Errors: ``OSError``."""
        folder = self._prepare()
        text = json.dumps(serialize(record), indent=2, sort_keys=True)
        replace_private(folder / _name(record.issuer, record.resource), (text + "\n").encode())

    def forget(self, resource: str, issuer: str | None = None) -> int:
        """Deletes the files of a resource, including unreadable ones, or of one issuer only; returns their number."""
        names = None if issuer is None else {_name(issuer.rstrip("/") + end, resource) for end in ("", "/")}
        files = [file for file in self._files(resource) if names is None or file.name in names]
        for file in files:
            file.unlink(missing_ok=True)
        return len(files)

    @contextlib.asynccontextmanager
    async def alone(self, resource: str) -> AsyncGenerator[None, None]:
        """Keeps other programs from renewing a sign-in at this resource, since each renewal ends the one before."""
        descriptor = os.open(self._prepare() / f"{_hash(resource)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    while not _lock(descriptor):  # noqa: ASYNC110  the other one is another program
                        await asyncio.sleep(_PAUSE)
            yield
        finally:
            os.close(descriptor)

    def _prepare(self) -> pathlib.Path:
        """The private folder. Errors: ``OSError``."""
        if self.folder is None:
            raise FileNotFoundError("There is no folder for tokens.")
        make_private(self.folder)
        self.folder.chmod(0o700)
        return self.folder

    def _files(self, resource: str) -> list[pathlib.Path]:
        """The files of a resource, the latest first."""
        if self.folder is None:
            return []
        files: list[tuple[int, pathlib.Path]] = []
        for file in self.folder.glob(f"{_hash(resource)}-*.json"):
            with contextlib.suppress(FileNotFoundError):
                files.append((file.lstat().st_mtime_ns, file))
        return [file for _, file in sorted(files, reverse=True)]

    def _read(self, file: pathlib.Path, resource: str) -> SignIn | None:
        try:
            record = deserialize(SignIn, json.loads(_bytes(file)))
            if record.resource != resource or file.name != _name(record.issuer, resource):
                raise ValueError("it belongs to another issuer or resource")
        except FileNotFoundError:
            return None
        except (OSError, SerializationInvalidity, ValueError, RecursionError) as error:
            # A decoder's message may quote the content.
            reason = str(error) if type(error) is ValueError else f"it is damaged ({type(error).__name__})"
            message = f"The sign-in in {file} is not used: {reason}. To replace it, sign in again: ripieno login"
            if message not in self._reported:
                self._reported.add(message)
                self._alert(Alert(message=message))
            return None
        return record


def resource_of(url: str) -> str:
    """A server's URL as the resource of tokens: scheme and host in lower case, and no fragment (RFC 8707)."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment="").geturl()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _name(issuer: str, resource: str) -> str:
    return f"{_hash(resource)}-{_hash(issuer)}.json"


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _bytes(file: pathlib.Path) -> bytes:
    """The content of a private file. Errors: ``OSError``; ``ValueError`` for a file that may be another user's."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not a file")
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise ValueError("others can read or write it")
        if about.st_size > _LARGEST:
            raise ValueError("it is too large")
        return stream.read(_LARGEST)
