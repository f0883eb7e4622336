"""Files that were uploaded for a message that is still to come."""

import contextlib
import re
import time
from collections.abc import Callable, Generator, Iterable

from ripieno.canisters import DocumentContent, ImageContent
from ripieno.canisters.contents import Content
from ripieno.exceptions import NameAbsence
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.contents import data_of, reference_of
from ripieno.servers.http.limits import Refused

#: Seconds for which an upload waits for its message.
_KEPT = 3600.0
#: How files of each type begin.
_BEGINNINGS = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
    ("application/pdf", re.compile(rb"%PDF-")),
)
#: The types of files that can be uploaded.
TYPES = (*(name for name, _ in _BEGINNINGS), "text/plain")


def type_of(data: bytes) -> str | None:
    """The type of a file by its own bytes; None if it is none of the types that can be uploaded."""
    for name, beginning in _BEGINNINGS:
        if beginning.match(data):
            return name
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else "text/plain"


def read_upload(data: bytes, claimed: str) -> ImageContent | DocumentContent:
    """The content of a file that its sender claims to be of a type. Errors: ``Refused``."""
    if not data:
        raise _refused(400, "empty", "The file is empty. Send its bytes as the body of the request.")
    found = type_of(data)
    if found is None or found != claimed:
        really = "of none of these types" if found is None else f"of the type {found}"
        claim = f"Content-Type is {claimed or 'missing'}"
        message = f"{claim}, and the file is {really}: {', '.join(TYPES)}. Send it as what it is."
        raise _refused(415, "unsupported_media_type", message)
    make = ImageContent if found.startswith("image/") else DocumentContent
    return make(data=data, mime_type=found)


class Uploads:
    """Uploads by owners and conversations, in memory.

    An owner has at most ``most`` bytes of them, also of those that are on their way, each for an hour at most.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._kept: dict[tuple[str, str, str], tuple[float, Content]] = {}
        self._coming: dict[str, int] = {}

    @contextlib.contextmanager
    def receiving(self, owner: str, size: int) -> Generator[None, None, None]:
        """Reserves the bytes of an upload that is on its way. Errors: ``Refused`` if they are too many."""
        for key, (since, _) in list(self._kept.items()):
            if self._clock() - since > _KEPT:
                del self._kept[key]
        kept = sum(len(data_of(one)) for (name, _, _), (_, one) in self._kept.items() if name == owner)
        coming = self._coming.get(owner, 0)
        if kept + coming + size > self._most:
            message = (
                f"Your uploads that no message has named yet have {kept + coming} bytes, and this one has {size}; "
                f"all together may have {self._most}. Send the message, or delete uploads."
            )
            raise _refused(429, "too_many_uploads", message)
        self._coming[owner] = coming + size
        try:
            yield
        finally:
            self._coming[owner] -= size
            if not self._coming[owner]:
                del self._coming[owner]

    def add(self, owner: str, identifier: str, content: Content) -> str:
        """Keeps an upload, and returns its reference."""
        reference = reference_of(content)
        self._kept[owner, identifier, reference] = (self._clock(), content)
        return reference

    def find(self, owner: str, identifier: str, reference: str) -> Content:
        """The upload with this reference. Errors: ``NameAbsence``."""
        found = self._kept.get((owner, identifier, reference))
        if found is None:
            raise NameAbsence("content", reference, hint="Upload it again.")
        return found[1]

    def forget(self, owner: str, identifier: str, contents: Iterable[Content] | None = None) -> None:
        """Drops those of these contents that are uploads, or all uploads of a conversation."""
        # A message may have given it a name; its bytes are the same object.
        named = None if contents is None else {id(data_of(one)) for one in contents}
        for key, (_, content) in list(self._kept.items()):
            if key[:2] == (owner, identifier) and (named is None or id(data_of(content)) in named):
                del self._kept[key]


def _refused(status: int, code: str, message: str) -> Refused:
    return Refused(Refusal(status=status, code=code, message=message))
