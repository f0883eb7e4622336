"""The tables of the state, the same in both databases, and the steps from each version to the next."""

from collections.abc import Mapping, Sequence

#: The version of these tables.
VERSION = 7

# Who continues a conversation, where several machines share the database: see ``claims.py``.
_CLAIMS = """
    CREATE TABLE claims (
        owner {text} NOT NULL,
        conversation {text} NOT NULL,
        epoch {integer} NOT NULL,
        until {real} NOT NULL,
        PRIMARY KEY (owner, conversation)
    ){strict}
"""

# Runs that workers conduct for other programs: their events, for who watches, and the workers that are alive.
_DISPATCH = (
    """
    CREATE TABLE events (
        owner {text} NOT NULL,
        conversation {text} NOT NULL,
        submission {text} NOT NULL,
        number {integer} NOT NULL,
        at {real} NOT NULL,
        body {text} NOT NULL,
        PRIMARY KEY (owner, conversation, number)
    ){strict}
    """,
    "CREATE INDEX events_by_time ON events (at)",
    """
    CREATE TABLE workers (
        name {text} PRIMARY KEY,
        host {text} NOT NULL,
        until {real} NOT NULL
    ){strict}
    """,
)

# Responses that clients of the gateway may fetch and continue. Contents are encrypted; the rest is for finding, expiry,
# limits, and the lease of the process that runs a response. The keys are apart, so that backups can leave them out.
_RESPONSES = (
    "CREATE TABLE caller_keys (caller {text} PRIMARY KEY, wrapped {bytes} NOT NULL){strict}",
    """
    CREATE TABLE responses (
        caller {text} NOT NULL,
        identifier {text} NOT NULL,
        parent {text},
        conversation {text},
        status {text} NOT NULL,
        background {integer} NOT NULL,
        cancelling {integer} NOT NULL,
        holder {text} NOT NULL,
        until {real} NOT NULL,
        expires {real} NOT NULL,
        links {integer} NOT NULL,
        chain {integer} NOT NULL,
        size {integer} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (caller, identifier)
    ){strict}
    """,
    "CREATE INDEX responses_by_size ON responses (caller, size)",
    "CREATE INDEX responses_by_expiry ON responses (expires)",
    "CREATE INDEX responses_by_holder ON responses (holder) WHERE holder != ''",
    """
    CREATE TABLE response_events (
        caller {text} NOT NULL,
        response {text} NOT NULL,
        first {integer} NOT NULL,
        last {integer} NOT NULL,
        expires {real} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (caller, response, first)
    ){strict}
    """,
    "CREATE INDEX response_events_by_expiry ON response_events (expires)",
    """
    CREATE TABLE response_conversations (
        caller {text} NOT NULL,
        identifier {text} NOT NULL,
        holder {text} NOT NULL,
        until {real} NOT NULL,
        expires {real} NOT NULL,
        size {integer} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (caller, identifier)
    ){strict}
    """,
    "CREATE INDEX response_conversations_by_expiry ON response_conversations (expires)",
    "CREATE INDEX response_conversations_by_holder ON response_conversations (holder) WHERE holder != ''",
    """
    CREATE TABLE conversation_items (
        caller {text} NOT NULL,
        conversation {text} NOT NULL,
        number {integer} NOT NULL,
        identifier {text} NOT NULL,
        size {integer} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (caller, conversation, number)
    ){strict}
    """,
    "CREATE UNIQUE INDEX conversation_items_by_identifier ON conversation_items (caller, conversation, identifier)",
    "CREATE INDEX conversation_items_by_size ON conversation_items (caller, size)",
)

# When runs of an owner and of a provider begin, in milliseconds since 1970, where their rates are limited.
_RATES = """
    CREATE TABLE rates (
        kind {text} NOT NULL,
        name {text} NOT NULL,
        until {integer} NOT NULL,
        starts {text} NOT NULL,
        PRIMARY KEY (kind, name)
    ){strict}
"""

# What people have allowed with *always* is found without reading all lines.
_ANSWERS = """
    CREATE INDEX lines_of_answers ON lines (owner, conversation, number) WHERE stage IN ('answered', 'revoked')
"""

#: The SQL that creates them, with the names of types in braces.
CREATE: Sequence[str] = (
    """
    CREATE TABLE lines (
        number {numbered},
        conversation {text} NOT NULL,
        turn {integer} NOT NULL,
        stage {text} NOT NULL,
        tool {text} NOT NULL,
        invocation {text},
        at {text} NOT NULL,
        body {text},
        salt {text},
        body_digest {text} NOT NULL,
        previous {text} NOT NULL,
        digest {text} NOT NULL,
        owner {text} NOT NULL,
        place {integer} NOT NULL
    ){strict}
    """,
    # The chain of a conversation: of two programs that append at the same place, one is refused.
    "CREATE UNIQUE INDEX lines_of_chain ON lines (conversation, owner, place)",
    "CREATE INDEX lines_of_conversation ON lines (conversation, number)",
    # Without owners, as on one person's machine, this index is empty and costs nothing.
    "CREATE INDEX lines_of_owner ON lines (owner, conversation, number) WHERE owner != ''",
    _ANSWERS,
    """
    CREATE TABLE paused (
        owner {text} NOT NULL,
        conversation {text} NOT NULL,
        at {text} NOT NULL,
        body {text} NOT NULL,
        PRIMARY KEY (owner, conversation)
    ){strict}
    """,
    # Only hashes: who reads them cannot use a grant.
    """
    CREATE TABLE grants (
        token {text} PRIMARY KEY,
        conversation {text} NOT NULL,
        invocation {text} NOT NULL,
        tool {text} NOT NULL,
        definition {text} NOT NULL,
        arguments {text} NOT NULL,
        rules {text} NOT NULL,
        issued {real} NOT NULL,
        expires {real} NOT NULL,
        used {real}
    ){strict}
    """,
    _CLAIMS,
    *_DISPATCH,
    *_RESPONSES,
    _RATES,
)

#: The tables of what is deleted with a conversation, beside its lines: their rows have its ``row_key``.
BESIDE: Sequence[str] = ("paused", "events")
#: The tables with contents that are deleted.
CLEANED: Sequence[str] = (
    "lines",
    *BESIDE,
    "caller_keys",
    "responses",
    "response_events",
    "response_conversations",
    "conversation_items",
)

#: The error of tables that a newer program has made.
NEWER = "The tables of {name} have version {version}, of a newer program; this one has {own}. Use a newer program."
#: The steps from each earlier version. Those before 3 have another chain and are refused.
MIGRATIONS: Mapping[int, Sequence[str]] = {3: (_CLAIMS,), 4: (*_DISPATCH, *_RESPONSES), 5: (_RATES,), 6: (_ANSWERS,)}
