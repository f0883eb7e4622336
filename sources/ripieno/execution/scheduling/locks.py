"""Which calls of one process wait for each other: for what they declare to touch, and for places where few may run.

A call takes all that it needs at once, and holds nothing while it waits: calls that wait cannot wait for each other in
a circle. Who came first is served first; who conflicts with nobody that came before is served at once.
"""

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Iterator, Sequence

from ripieno.ensembles import Invoker
from ripieno.execution.claims import EVERYTHING, Claims

#: The tickets of the calls that this code runs beneath: a tool that conducts a run of its own does not wait for itself.
HELD: contextvars.ContextVar[tuple["Ticket", ...]] = contextvars.ContextVar("ripieno held tickets", default=())


class Ticket:
    """What one call needs of the others. ``granted`` is called when it has that, unless it had it at once."""

    __slots__ = ("_followers", "_granted", "_waits_for", "claims", "held", "owner", "pools", "space", "tool")

    def __init__(
        self, *, tool: str, owner: object, space: str | None, claims: Claims, granted: Callable[[], None]
    ) -> None:
        self.tool = tool
        #: Whoever makes the call: the turn of a conversation.
        self.owner = owner
        self.space = space
        self.claims = claims
        self.pools: tuple[Pool, ...] = ()
        self.held = False
        self._granted = granted
        self._waits_for: dict[Ticket, None] = {}
        self._followers: dict[Ticket, None] = {}

    def conflicts(self, other: "Ticket") -> bool:
        """Whether the two may not be held at once."""
        return self.space == other.space and self.claims.conflicts(other.claims)

    def follow(self, other: "Ticket") -> None:
        """Waits until the other one has ended."""
        self._waits_for[other] = None
        other._followers[self] = None

    @property
    def ready(self) -> bool:
        """Whether nothing stands in its way."""
        return not self._waits_for and all(pool.admits(self) for pool in self.pools)

    def grant(self) -> None:
        """Gives it what it needs."""
        self.held = True

    def tell(self) -> None:
        """Tells whoever waits for it."""
        self._granted()

    def end(self) -> tuple["Ticket", ...]:
        """Whoever may be ready now that this one is no more."""
        self.held = False
        for one in self._waits_for:
            one._followers.pop(self, None)
        self._waits_for.clear()
        followers = tuple(self._followers)
        self._followers.clear()
        for one in followers:
            one._waits_for.pop(self, None)
        return followers

    @property
    def before(self) -> "Ticket | None":
        """The one that it waits for, as far as that is one: what to name to people."""
        for one in self._waits_for:
            return one
        return next((one for pool in self.pools for one in pool.members if one is not self and one.held), None)


class Pool:
    """A place in which few may be at once: in the order in which they came, with who waits."""

    __slots__ = ("limit", "members")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.members: dict[Ticket, None] = {}

    @property
    def first(self) -> Iterator[Ticket]:
        """Those who have a place, or would have one if nothing else stood in their way."""
        return (one for _, one in zip(range(self.limit), self.members, strict=False))

    def add(self, ticket: Ticket, *, first: bool) -> None:
        """Takes one in: as the last, or as the ``first`` of those who wait."""
        waiting = [one for one in self.members if not one.held] if first else []
        for one in waiting:
            del self.members[one]
        self.members.update(dict.fromkeys((ticket, *waiting)))

    def admits(self, ticket: Ticket) -> bool:
        """Whether it is among the first."""
        return any(one is ticket for one in self.first)


class Locks:
    """The room in which the calls of one event loop meet. Of no use to other threads."""

    def __init__(self) -> None:
        #: All tickets that have not ended, in the order in which they came.
        self._tickets: dict[Ticket, None] = {}
        self._pools: dict[tuple[object, str], Pool] = {}

    @classmethod
    def here(cls) -> "Locks":
        """The room of the running event loop."""
        loop = asyncio.get_running_loop()
        locks = _ROOMS.get(loop)
        if locks is None:
            locks = _ROOMS[loop] = cls()
        return locks

    def request(self, invoker: Invoker, claims: Claims, owner: object, granted: Callable[[], None]) -> Ticket | None:
        """A ticket for a call, held already or to be waited for; None for a call that needs none.

        Only what is declared is waited for. Whoever gets one gives it to ``release`` in the end, whatever happens.
        """
        claims = _declared(claims)
        ensemble = invoker.ensemble
        places = [(ensemble, "", ensemble.max_parallel), (ensemble, invoker.name, invoker.policy.max_parallel)]
        if not (claims.reads or claims.writes) and all(limit is None for *_, limit in places):
            return None
        surroundings = ensemble.surroundings
        ticket = Ticket(
            tool=invoker.identity,
            owner=owner,
            space=None if surroundings is None else str(surroundings.workspace),
            claims=claims,
            granted=granted,
        )
        self._queue(ticket, [((place, name), limit) for place, name, limit in places if limit is not None])
        return ticket

    def _queue(self, ticket: Ticket, places: Sequence[tuple[tuple[object, str], int]]) -> None:
        above = HELD.get()
        for other in self._tickets:
            # Whoever makes both knows by itself which comes first.
            if other.owner is ticket.owner or other in above or not ticket.conflicts(other):
                continue
            if above and not other.held:
                # Whoever waits may wait for what is held above this one, which would never end.
                other.follow(ticket)
            else:
                ticket.follow(other)
        self._tickets[ticket] = None
        pools: list[Pool] = []
        for key, limit in places:
            pool = self._pools.setdefault(key, Pool(limit))
            pool.limit = limit
            if any(one in pool.members for one in above):
                continue
            pool.add(ticket, first=bool(above))
            pools.append(pool)
        ticket.pools = tuple(pools)
        if ticket.ready:
            ticket.grant()

    def release(self, ticket: Ticket) -> None:
        """The call has ended, or is not waited for any longer. May be called twice."""
        if self._tickets.pop(ticket, self) is self:
            return
        candidates = dict.fromkeys(ticket.end())
        for pool in ticket.pools:
            pool.members.pop(ticket, None)
            candidates.update(dict.fromkeys(pool.first))
        if not all(pool.members for pool in ticket.pools):
            self._pools = {key: pool for key, pool in self._pools.items() if pool.members}
        ready = [one for one in candidates if not one.held and one.ready]
        for one in ready:
            one.grant()
        for one in ready:
            one.tell()

    @property
    def idle(self) -> bool:
        """Whether nobody holds anything, or waits."""
        return not self._tickets and not self._pools


def _declared(claims: Claims) -> Claims:
    """What is left to lock when everything that nobody declared is left out."""
    if claims.alone:
        return Claims()
    if EVERYTHING not in claims.reads:
        return claims
    return Claims(reads=tuple(one for one in claims.reads if one != EVERYTHING), writes=claims.writes)


_ROOMS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Locks] = weakref.WeakKeyDictionary()
