"""Locks between the calls of one process, on the resources that they declare and on ``max_parallel`` places.

With ``workspaces``, also between the processes of one machine: see ``workspace_locks.py``.

A call acquires all its locks at once and holds none while it waits, so there is no deadlock. First come, first served;
a call that conflicts with no earlier one gets its locks immediately.
"""

import asyncio
import contextvars
import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence

from ripieno.ensembles import Invoker
from ripieno.ensembles.placed import original_of
from ripieno.execution.claims import EVERYTHING, Claims
from ripieno.execution.scheduling.workspace_locks import WorkspaceLocks

#: Seconds between attempts to hold a workspace that another process has.
_ATTEMPTS = 0.05
#: The tickets of the enclosing calls: a tool that conducts its own run does not wait for itself.
HELD: contextvars.ContextVar[tuple["Ticket", ...]] = contextvars.ContextVar("ripieno held tickets", default=())


@dataclasses.dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Ticket:
    """The locks of one call. ``granted`` is called when it gets them, unless it gets them at once.

    ``owner`` is the same for all calls of one turn.
    """

    tool: str
    owner: object
    space: str | None
    claims: Claims
    granted: Callable[[], None]
    pools: tuple["Pool", ...] = ()
    held: bool = False
    #: Whether it runs within another call that holds locks; and whether another process has its workspace.
    within: bool = False
    elsewhere: bool = False
    _waits_for: dict["Ticket", None] = dataclasses.field(default_factory=dict["Ticket", None], init=False)
    _followers: dict["Ticket", None] = dataclasses.field(default_factory=dict["Ticket", None], init=False)

    @property
    def workspace(self) -> str | None:
        """The workspace whose resources it uses; None for a call that only needs a place."""
        return self.space if self.claims.reads or self.claims.writes else None

    def conflicts(self, other: "Ticket") -> bool:
        """Whether the two may not be held at once."""
        return self.space == other.space and self.claims.conflicts(other.claims)

    def follow(self, other: "Ticket") -> None:
        """Waits until the other one has ended."""
        self._waits_for[other] = None
        other._followers[self] = None

    @property
    def ready(self) -> bool:
        """Whether it may be held now."""
        return not self._waits_for and all(pool.admits(self) for pool in self.pools)

    def end(self) -> tuple["Ticket", ...]:
        """Ends it; returns the tickets that waited for it."""
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
        """A ticket that it waits for, to name in messages."""
        for one in self._waits_for:
            return one
        return next((one for pool in self.pools for one in pool.members if one is not self and one.held), None)


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Pool:
    """A limited number of places, with the tickets that hold or wait for one, in the order of arrival."""

    limit: int
    members: dict[Ticket, None] = dataclasses.field(default_factory=dict[Ticket, None])

    @property
    def first(self) -> Iterator[Ticket]:
        """The tickets that have a place, or only wait for something else."""
        return (one for _, one in zip(range(self.limit), self.members, strict=False))

    def add(self, ticket: Ticket, *, first: bool) -> None:
        """Adds a ticket as the last, or as the ``first`` of those that wait."""
        waiting = [one for one in self.members if not one.held] if first else []
        for one in waiting:
            del self.members[one]
        self.members.update(dict.fromkeys((ticket, *waiting)))

    def admits(self, ticket: Ticket) -> bool:
        """Whether it is among the first."""
        return any(one is ticket for one in self.first)


class Locks:
    """The locks of the calls of one event loop. Not thread-safe."""

    def __init__(self) -> None:
        #: The locks between processes, if there are any.
        self.workspaces: WorkspaceLocks | None = None
        #: All tickets that have not ended, in the order of arrival.
        self._tickets: dict[Ticket, None] = {}
        #: The next attempt to hold a workspace that another process has.
        self._attempt: asyncio.TimerHandle | None = None
        self._pools: dict[tuple[object, str], Pool] = {}

    @classmethod
    def here(cls) -> "Locks":
        """The locks of the running event loop."""
        loop = asyncio.get_running_loop()
        locks = _LOCKS.get(loop)
        if locks is None:
            locks = _LOCKS[loop] = cls()
        return locks

    def request(self, invoker: Invoker, claims: Claims, owner: object, granted: Callable[[], None]) -> Ticket | None:
        """A ticket for a call, held or waiting; None for a call that needs none.

        Only declared resources are locked. The caller must ``release`` the ticket in the end.
        """
        claims = _declared(claims)
        ensemble, limits = invoker.ensemble, (invoker.ensemble.max_parallel, invoker.policy.max_parallel)
        if not (claims.reads or claims.writes) and limits == (None, None):
            return None
        whole = original_of(ensemble)
        places = zip(((whole, ""), (whole, invoker.name)), limits, strict=True)
        surroundings = ensemble.surroundings
        ticket = Ticket(
            tool=invoker.identity,
            owner=owner,
            space=None if surroundings is None else str(surroundings.workspace),
            claims=claims,
            granted=granted,
        )
        self._queue(ticket, [(place, limit) for place, limit in places if limit is not None])
        return ticket

    def _queue(self, ticket: Ticket, places: Sequence[tuple[tuple[object, str], int]]) -> None:
        above = HELD.get()
        for other in self._tickets:
            # A turn orders its own calls.
            if other.owner is ticket.owner or other in above or not ticket.conflicts(other):
                continue
            if above and not other.held:
                # A waiting call may wait for an enclosing call of this one, which would be a deadlock.
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
        ticket.within = bool(above)
        ticket.held = ticket.ready and self._enter(ticket)

    def _enter(self, ticket: Ticket) -> bool:
        """Whether a ticket has the workspace that it needs. If another process has it, it is tried again."""
        if self.workspaces is None or (workspace := ticket.workspace) is None:
            return True
        alone = bool(ticket.claims.writes)
        ticket.elsewhere = not self.workspaces.enter(workspace, alone=alone, within=ticket.within)
        if ticket.elsewhere and self._attempt is None:
            self._attempt = asyncio.get_running_loop().call_later(_ATTEMPTS, self._try_again)
        return not ticket.elsewhere

    def _try_again(self) -> None:
        self._attempt = None
        self._grant([one for one in self._tickets if one.elsewhere and one.ready])

    def _grant(self, candidates: Sequence[Ticket]) -> None:
        for one in candidates:
            one.held = self._enter(one)
        for one in candidates:
            if one.held:
                one.granted()

    def release(self, ticket: Ticket) -> None:
        """Releases the locks of a call that has ended or no longer waits. May be called twice."""
        if self._tickets.pop(ticket, self) is self:
            return
        if ticket.held and self.workspaces is not None and (workspace := ticket.workspace) is not None:
            self.workspaces.leave(workspace)
        candidates = dict.fromkeys(ticket.end())
        for pool in ticket.pools:
            pool.members.pop(ticket, None)
            candidates.update(dict.fromkeys(pool.first))
        if not all(pool.members for pool in ticket.pools):
            self._pools = {key: pool for key, pool in self._pools.items() if pool.members}
        self._grant([one for one in candidates if not one.held and one.ready])

    @property
    def idle(self) -> bool:
        """Whether no ticket is held or waits."""
        return not self._tickets and not self._pools


def _declared(claims: Claims) -> Claims:
    if claims.alone:
        return Claims()
    if EVERYTHING not in claims.reads:
        return claims
    return Claims(reads=tuple(one for one in claims.reads if one != EVERYTHING), writes=claims.writes)


_LOCKS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Locks] = weakref.WeakKeyDictionary()
