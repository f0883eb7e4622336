"""Generated canisters and conversations, for the laws about them."""

import datetime

from frozendict import frozendict
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    AudioContent,
    Canister,
    Content,
    Conversation,
    DocumentCanister,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.conversation import Usage
from ripieno.canisters.faults import CATEGORY_NAMES, Change, Fault, Report
from ripieno.jsonvalues import freeze

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(0, 2**53)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects: st.SearchStrategy[frozendict[str, object]] = st.dictionaries(texts, json_values, max_size=3).map(freeze)
times = st.datetimes(timezones=st.sampled_from([datetime.UTC, datetime.timezone(datetime.timedelta(hours=5.5))]))

textual = st.builds(TextualContent, text=texts, mime_type=st.sampled_from(["text/plain", "application/json"]))
contents: st.SearchStrategy[Content] = st.one_of(
    textual,
    st.builds(ImageContent, data=st.binary(max_size=9), mime_type=texts),
    st.builds(AudioContent, data=st.binary(max_size=9), mime_type=texts),
    st.builds(DocumentContent, data=st.binary(max_size=9), mime_type=texts),
    st.builds(DocumentContent, url=texts, mime_type=texts),
    st.builds(OpaqueContent, protocol=texts, kind=texts, data=objects),
)
several = st.lists(contents, max_size=3).map(tuple)
faults = st.builds(
    Fault,
    category=st.sampled_from(sorted(CATEGORY_NAMES)),
    message=texts,
    code=texts,
    details=objects,
    recoverable=st.booleans(),
    suggestion=st.none() | texts,
)
changes = st.builds(Change, kind=st.sampled_from(["FileCreated", "EnvVarSet"]), data=objects)
reports = st.builds(
    Report,
    duration_ms=st.floats(0, 1e9),
    exit_code=st.none() | st.integers(-9, 255),
    changes=st.lists(changes, max_size=2).map(tuple),
    stdout_truncated=st.booleans(),
    stderr_truncated=st.booleans(),
    total_bytes=numbers,
    attempts=st.integers(0, 3),
    sandbox=st.none() | texts,
)
invocations = st.builds(
    InvocationCanister,
    identifier=texts,
    name=texts,
    arguments=objects,
    kind=st.sampled_from(["function", "freeform"]),
    raw=st.none() | texts,
    fault=st.none() | faults,
    opaque=objects,
    timestamp=times,
)
results = st.builds(
    ResultCanister, invocation_id=texts, content=several, error=st.none() | faults, report=reports, timestamp=times
)
assistants = st.builds(AssistantCanister, content=several, timestamp=times)
canisters: st.SearchStrategy[Canister] = st.one_of(
    st.builds(UserCanister, content=several, timestamp=times),
    assistants,
    st.builds(SupervisorCanister, content=several, timestamp=times),
    st.builds(DocumentCanister, content=several, identifier=texts, title=st.none() | texts, timestamp=times),
    invocations,
    results,
)
usages = st.builds(
    Usage,
    input_tokens=numbers,
    output_tokens=numbers,
    cache_read_tokens=numbers,
    cache_write_tokens=numbers,
    reasoning_tokens=numbers,
)
conversations = st.builds(
    Conversation,
    identifier=texts,
    canisters=st.lists(canisters, max_size=4).map(tuple),
    open=st.lists(invocations, max_size=2).map(tuple),
    submission=st.none() | invocations,
    usage=usages,
    finish=st.none() | st.sampled_from(["stop", "open", "limit", "aborted"]),
)
