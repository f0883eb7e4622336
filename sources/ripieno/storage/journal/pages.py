"""The list of conversations in parts, with their tokens, also of those only in which a text was said."""

from collections.abc import Iterator, Mapping, Sequence

from ripieno.storage.databases.contract import Connection
from ripieno.storage.journal.lines import COLUMNS, Line, says, written
from ripieno.storage.journal.statistics import tokens_of
from ripieno.storage.journal.summaries import OF_PAGE, PAGE, End, Key, Summary, newest, on_page, summarize
from ripieno.values import Value

#: Conversations that are looked up at once.
_BATCH = 100
#: Lines after which a search returns what it has found so far (measured: 0.2 s for 100,000).
_SEARCHED = 200_000


class Page(Value, kw_only=True):
    """A part of the list. ``tokens`` has those of the input and the output of each conversation, by name and owner.

    In a search, ``matches`` has the first value of each that contains the text.

    ``next`` is where the following part begins; None at the end of the list. A part of a search may be empty, and not
    the last one.
    """

    summaries: Sequence[Summary]
    tokens: Mapping[Key, tuple[int, int]]
    matches: Mapping[Key, str]
    next: int | None


def read_page(connection: Connection, *, owner: str | None, text: str, before: int | None, limit: int) -> Page:
    """At most ``limit`` conversations whose content is not deleted, those first that were written last.

    The number of queries depends on the part, not on the journal. A search reads so many lines and no more at once.
    """
    found: list[tuple[int, Summary]] = []
    following, searched, matches = None, 0, dict[Key, str]()
    for batch in _batches(newest(connection, owner, before)):
        numbers = {(name, whose): number for name, whose, number, _ in batch}
        page = list(numbers)
        if text:
            matches |= _matches(connection, page, text)
            page = [key for key in page if key in matches]
        found += ((numbers[one.identifier, one.owner], one) for one in summarize(connection, page) if not one.deleted)
        if len(found) > limit:
            following = found[limit - 1][0]
            break
        searched += sum(lines for _, _, _, lines in batch) if text else 0
        if searched > _SEARCHED:
            following = batch[-1][2]
            break
    summaries = [one for _, one in found[:limit]]
    return Page(
        summaries=summaries,
        tokens=tokens_of(connection, [(one.identifier, one.owner) for one in summaries]),
        matches=matches,
        next=following,
    )


def _batches(keys: Sequence[End]) -> Iterator[Sequence[End]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))


def _matches(connection: Connection, page: Sequence[Key], text: str) -> Mapping[Key, str]:
    """The first values of bodies that have a text, by conversation. The database also matches names of fields."""
    forms = written(text)
    matches = " OR ".join(["instr(body, ?) > 0"] * len(forms))
    found: dict[Key, str] = {}
    for row in on_page(connection, f"{PAGE} SELECT {COLUMNS} {OF_PAGE} AND ({matches})", page, *forms):
        line = Line(*row)
        key = line.conversation, line.owner
        if key not in found and (value := says(line, text)) is not None:
            found[key] = value
    return found
