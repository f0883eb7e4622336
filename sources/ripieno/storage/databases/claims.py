"""Claims of conversations in a database that several machines share: leases by its clock, with epochs.

A claim ends ``LEASE`` seconds after its last renewal, so that a machine that vanished holds nothing for ever. A process
that was stopped meanwhile does not know that its claim went to another one. Therefore each line names the epoch of its
claim, and the database refuses a line whose epoch is not the latest: a wrong verdict about who is alive costs work, and
never an effect.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence

from ripieno.exceptions import InputError, Superseded
from ripieno.storage.databases.contract import Connection, Disconnected, Locked, Rows, row_key
from ripieno.values import Value

#: Seconds after which a claim that is not renewed may be taken.
LEASE = 15.0
#: Seconds between renewals.
RENEWAL = 5.0

#: A row if a conversation is claimed.
CLAIMED = "SELECT 1 FROM claims WHERE owner = ? AND conversation = ? AND until > now_seconds()"
_Key = tuple[str, str]
_TAKE = """
    INSERT INTO claims (owner, conversation, epoch, until) VALUES (?, ?, 1, now_seconds() + ?)
    ON CONFLICT (owner, conversation) DO UPDATE SET epoch = claims.epoch + 1, until = excluded.until
    WHERE claims.until <= now_seconds() RETURNING epoch
"""
_MINE = "owner = ? AND conversation = ? AND epoch = ?"
# A renewal that was under way at a release must not undo it: a released claim has the time 0.
_RENEW = f"UPDATE claims SET until = now_seconds() + ? WHERE {_MINE} AND until > 0"
_RELEASE = f"UPDATE claims SET until = 0 WHERE {_MINE}"


class Claim(Value, kw_only=True):
    """The claim under which a conversation is written: a ``Fence``, whose query holds back those who would take it."""

    owner: str
    conversation: str
    epoch: int

    query = f"SELECT 1 FROM claims WHERE {_MINE} FOR SHARE"

    @property
    def parameters(self) -> Sequence[object]:
        """The parameters of ``query``."""
        return *row_key(self.owner, self.conversation), self.epoch

    def check(self, connection: Connection) -> None:
        """Errors: ``Superseded``. Until the end of the transaction, nobody else takes the claim."""
        if connection.execute(self.query, self.parameters).fetchone() is None:
            raise self.lost()

    def lost(self) -> Superseded:
        """The error of who no longer has the claim."""
        return Superseded(
            f"Another process continues the conversation {self.conversation}: this one did not renew its claim for "
            f"{LEASE:.0f} seconds. It runs and records nothing more."
        )


class Claims:
    """The claims of this process in one database.

    ``use`` gives the connection that all share. ``connect`` opens one for the block, so that neither a long write nor a
    server that went away and came back delays a renewal.
    """

    def __init__(
        self,
        use: Callable[[], contextlib.AbstractContextManager[Connection]],
        connect: Callable[[], contextlib.AbstractContextManager[Connection]],
    ) -> None:
        self._use = use
        self._connect = connect
        self._lock = threading.Lock()
        self._held: dict[_Key, Claim] = {}
        #: What this process claims, from before it is taken until it is released.
        self._reserved: set[_Key] = set()
        #: Called when a renewal finds that a claim was taken.
        self._lost: dict[_Key, Callable[[], None]] = {}
        self._changed = threading.Event()
        self._renewer: threading.Thread | None = None

    def fence(self, owner: str, conversation: str) -> Claim | None:
        """The claim of a conversation, if this process has one."""
        return self._held.get((owner, conversation)) if self._held else None

    @contextlib.contextmanager
    def held(
        self, owner: str, conversation: str, lost: Callable[[], None] | None = None
    ) -> Generator[bool, None, None]:
        """Claims a conversation until the end of the block. Yields whether that succeeded.

        ``lost`` is called, at most once and in another thread, when another process has taken it. A claim of this
        process holds back others of this process also after its lease: its lines would pass under their fence.
        """
        key = owner, conversation
        with self._lock:
            free = key not in self._reserved
            self._reserved.add(key)
        if not free:
            yield False
            return
        try:
            with self._taken(key, lost) as taken:
                yield taken
        finally:
            with self._lock:
                self._reserved.discard(key)

    @contextlib.contextmanager
    def _taken(self, key: _Key, lost: Callable[[], None] | None) -> Generator[bool, None, None]:
        owner, conversation = key
        found = self._executed(_TAKE, (*row_key(*key), LEASE)).fetchone()
        if found is None:
            yield False
            return
        claim = Claim(owner=owner, conversation=conversation, epoch=int(found[0]))
        with self._lock:
            self._held[key] = claim
            if lost is not None:
                self._lost[key] = lost
            if self._renewer is None or not self._renewer.is_alive():
                self._changed.clear()
                self._renewer = threading.Thread(target=self._renew, name="ripieno claims", daemon=True)
                self._renewer.start()
        try:
            yield True
        finally:
            with self._lock:
                del self._held[key]
                self._lost.pop(key, None)
            # Otherwise it ends by itself.
            with contextlib.suppress(InputError):
                self._executed(_RELEASE, claim.parameters)

    def _executed(self, query: str, parameters: Sequence[object]) -> Rows:
        try:
            with self._use() as connection:
                return connection.execute(query, parameters)
        except Disconnected:
            # The shared connection may be one from before a restart of the server.
            with self._connect() as connection:
                return connection.execute(query, parameters)

    def close(self) -> None:
        """Ends the renewals. A later claim begins them again."""
        self._changed.set()

    def _renew(self) -> None:
        """Renews all claims, while there are any. A server that went away is asked again at the next time."""
        while not self._changed.wait(RENEWAL):
            with self._lock:
                claims = tuple(self._held.values())
                if not claims:
                    self._renewer = None
                    return
            left = list(claims)
            while left:
                try:
                    self._renew_all(left)
                except Locked:  # The row of this claim alone.
                    continue
                except Disconnected:
                    break
                except InputError:
                    continue

    def _renew_all(self, left: list[Claim]) -> None:
        """Renews claims, and takes each from the list before that. Errors: ``InputError``."""
        with self._connect() as connection:
            while left:
                one = left.pop(0)
                if not connection.execute(_RENEW, (LEASE, *one.parameters)).rowcount:
                    self._lose(one)

    def _lose(self, claim: Claim) -> None:
        key = claim.owner, claim.conversation
        with self._lock:
            # It may have been released meanwhile, and even claimed again.
            lost = self._lost.pop(key, None) if self._held.get(key) is claim else None
        if lost is not None:
            lost()
