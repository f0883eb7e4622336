"""The table of the zoo: each behaviour, over which transports, and how an encounter with it ends, in time."""

import dataclasses

#: How a server is reached, and which era of the protocol it speaks.
STDIO = "stdio-2025-11-25"
STDIO_MODERN = "stdio-2026-07-28"
HTTP = "http-2026-07-28"
HTTP_LEGACY = "http-2025-11-25"
BOTH = (STDIO, HTTP)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``category`` is that of the call's fault, ``refused`` for no connection, ``""`` for a result; ``words`` are
    a pattern that is found in the message, or in the text. ``seconds`` bound connecting and each call.

    ``after`` is what becomes of a call of the tool ``echo`` then: as ``category``.
    """

    behaviour: str
    category: str = ""
    words: str = ""
    over: tuple[str, ...] = BOTH
    seconds: float = 8.0
    after: str = ""
    alert: str = ""
    #: It sends much: our memory may not grow by it.
    flood: bool = False


def give(words: str, *behaviours: str, **more: object) -> list[Case]:
    """Cases whose calls succeed."""
    return [Case(behaviour=one, words=words, **more) for one in behaviours]  # type: ignore[arg-type]


def fail(category: str, words: str, *behaviours: str, **more: object) -> list[Case]:
    """Cases whose calls fail so, while the connection stays."""
    return [Case(behaviour=one, category=category, words=words, **more) for one in behaviours]  # type: ignore[arg-type]


def refuse(words: str, *behaviours: str, **more: object) -> list[Case]:
    """Cases that never connect."""
    return fail("refused", words, *behaviours, **more)


LOST = "outcome_unknown"
UNUSABLE = "the answer is not a message of the protocol, or is too large"
#: Seconds of a deadline that is reached.
SOON = 0.25
#: Over HTTP the first message of an answer's stream that is none ends the call.
_NO_MESSAGES = (
    *("null_id_first", "list_as_id_first", "fraction_as_id_first", "boolean_as_id_first", "no_id", "batch"),
    *("no_json_first", "half_json_first", "nul_bytes_first", "deeply_nested_first"),
    *("huge_number_first", "json_null_first", "json_number_first", "byte_order_mark"),
)
#: An answer that cannot be used, with the identifier of its request in a place where it can be found.
_UNUSABLE = (
    *("no_version", "text_with_half_surrogate", "structure_deeply_nested", "structure_with_huge_number"),
    *("error_without_message", "result_is_string", "result_is_null", "result_is_list", "result_is_number"),
)
_IMPOSSIBLE = (
    *("content_missing", "content_is_string", "content_is_null", "content_of_unknown_type"),
    *("content_with_number_as_text", "is_error_no_boolean", "resource_without_text", "resource_with_no_uri"),
    "task_instead_of_result",
)

CALLS = (
    *fail("timeout", "timed out", "mute_in_call", seconds=SOON, over=(STDIO,), after="timeout"),
    *fail("timeout", "timed out", "mute_in_call", seconds=SOON, over=(HTTP, HTTP_LEGACY)),
    *fail(LOST, "ended with exit code 3", "dies_in_call", over=(STDIO, STDIO_MODERN)),
    *fail(LOST, "ended with exit code 3", "dies_in_the_middle_of_an_answer", over=(STDIO,)),
    *fail(LOST, "broke the connection", "dies_in_call", over=(HTTP, HTTP_LEGACY)),
    *fail(LOST, "ended without a response", "dies_in_the_middle_of_an_answer", over=(HTTP,)),
    *give("^it$", "dies_after_call", over=(HTTP,)),
    *give("^it$", "slow_and_in_time"),
    *fail("timeout", "timed out", "slow_and_late", seconds=SOON, over=(HTTP,)),
    # An answer to nobody is dropped over stdio; the SDK gives whatever answer comes in a request's own stream its id.
    *fail("timeout", "timed out", "another_id_only", "null_id_only", over=(STDIO,), seconds=SOON, after="timeout"),
    *give(
        "^of another id$", "another_id_only", "another_id_first", "enormous_id_only", "enormous_id_first", over=(HTTP,)
    ),
    *give("^it$", "another_id_first", "enormous_id_first", over=(STDIO,)),
    *give("^of another id$", "string_id"),
    *give("^it$", "answers_twice", "carriage_returns", "duplicate_keys", "cancels_our_call", "asks_twice_with_one_id"),
    *give("^it$", *_NO_MESSAGES, "deeper_nested_first", over=(STDIO,), alert="that is not a message"),
    *fail(LOST, "without a response", "deeper_nested_first", over=(HTTP,)),
    *fail(LOST, UNUSABLE, *_NO_MESSAGES, over=(HTTP,)),
    *give("^it$", "invalid_utf8_first", over=(STDIO,), alert="that is not a message"),
    *fail("execution", "violates its protocol", "invalid_utf8_first", over=(HTTP,)),
    *give("^it$", "error_without_id", over=(STDIO,)),
    *fail("execution", "refused the call: Parse error", "error_without_id", over=(HTTP,)),
    *fail(LOST, UNUSABLE, *_UNUSABLE),
    *fail("execution", "refused the call: both", "answers_and_fails"),
    *fail("execution", "violates its protocol", *_IMPOSSIBLE),
    *fail("execution", "violates its protocol", "content_without_type", "structure_is_list", over=(STDIO,)),
    *give("^it$", "content_without_type", over=(HTTP,)),
    *give(r"\[1\]", "structure_is_list", over=(HTTP,)),
    *give("^it$", "unknown_result_type", over=(STDIO, STDIO_MODERN, HTTP)),
    *give("^it$", "result_type_is_number", over=(STDIO,)),
    *fail("execution", "violates its protocol", "result_type_is_number", over=(STDIO_MODERN, HTTP)),
    *give("not base64", "broken_base64", "kind_with_escapes"),
    *give("^i\0?t$", "text_with_nul"),
    *give('"a"', "structure_nested_in_bounds"),
    *fail("execution", "^the cat is here$", "is_error"),
    *fail("execution", r"^first\n2J\nsecond$", "is_error_of_two_texts"),
    *fail("execution", "failed without a message", "is_error_without_content", "is_error_that_shows_nothing"),
    *fail("execution", "refused the call: nox", "error_with_long_ansi_message"),
    *fail("execution", "refused the call: no$", "error_of_our_own_kind"),
    *fail("execution", "refused the call: Unsupported", "version_refused_in_call"),
    *fail("execution", "violates|asks? for input", "input_required_without_requests", "input_required_of_everything"),
    *fail("execution", "asks? for input", "input_required_of_everything", over=(STDIO_MODERN, HTTP)),
    *fail("execution", "asked for input more than", "input_required", over=(HTTP,)),
    *fail("execution", "does not match the schema", "patterns_that_take_for_ever", "structure_breaks_its_schema"),
    *give("^it$", "structure_is_missing"),
    *give("^xxx", "a_result_of_10_mib"),
    *give("^it$", "a_line_of_64_mib", over=(STDIO,), alert="a line of more than 16 MiB", flood=True),
    *fail(LOST, UNUSABLE, "a_result_of_64_mib", "an_image_of_20_mib", over=(STDIO,), flood=True),
    *fail(LOST, UNUSABLE, "many_small_contents", "structure_of_many_lists", over=(STDIO,), flood=True),
    *fail(LOST, "exceeded the 16777216", "a_result_of_64_mib", over=(HTTP,), flood=True),
    *fail(LOST, "without a response", "many_small_contents", "structure_of_many_lists", over=(HTTP,), flood=True),
    *give("further contents were left out", "more_contents_than_anybody_reads"),
    *give("^it$", "progress_storm", "progress_of_nonsense", "progress_after_the_answer", flood=True),
    *give("^it$", "logging_storm", "list_changed_storm", over=(STDIO,), flood=True),
    *give("^it$", "unknown_notifications", over=(STDIO,), alert="that is not a message"),
    *fail(LOST, UNUSABLE, "unknown_notifications", over=(HTTP,)),
    # A request of the server has no way back in the modern era.
    *give(r"^-32600 \S+ .*-32601 -32601 .*\{\}$", "asks_for_everything", over=(STDIO, HTTP_LEGACY)),
    *fail(LOST, "sent 1000 requests", "asks_and_never_reads", over=(STDIO,)),
)

LISTINGS = (
    *refuse("was not ready within", "mute_at_list", "the_second_page_never_comes", seconds=SOON),
    *refuse("ended with exit code 3", "dies_at_list", over=(STDIO,)),
    *refuse("broke the connection", "dies_at_list", over=(HTTP,)),
    *refuse("MCPError: Out of order", "refuses_to_list"),
    *give("^it$", "the_same_cursor_for_ever", alert="more than 20 pages"),
    *fail("unknown_tool", "no tool", "another_cursor_for_ever", after="unknown_tool", alert="more than 20 pages"),
    *fail("unknown_tool", "no tool", "tools_are_empty", after="unknown_tool"),
    *refuse("nextCursor", "a_cursor_that_is_a_number"),
    *refuse(UNUSABLE, "a_hundred_thousand_tools", "a_hundred_thousand_illegal_tools", over=(STDIO,), flood=True),
    *refuse("without", "a_hundred_thousand_tools", "a_hundred_thousand_illegal_tools", over=(HTTP,), flood=True),
    *refuse(UNUSABLE, "a_listing_of_64_mib", over=(STDIO,), flood=True),
    *refuse("exceeded the 16777216", "a_listing_of_64_mib", over=(HTTP,), flood=True),
    *give("^it$", "ten_thousand_tools", "ten_thousand_illegal_tools", alert="more than 512 tools", flood=True),
    *give("^it$", "ten_thousand_broken_tools", alert="Further problems with the tools of the server", flood=True),
    *give("^it$", "the_same_tool_a_thousand_times", alert="another tool of the server has its name"),
    *give("^it$", "names_that_are_none", alert="its name has other characters than letters"),
    *give("^it$", "tools_that_are_none", "schemas_that_are_none", alert="does not allow its definition"),
    *give("^it$", "schemas_with_references", alert="leads outside the schema"),
    *give("^it$", "a_schema_of_one_mib", alert="too large"),
    *refuse("MCPError", "a_schema_deeply_nested"),
    *give("^it$", "poisoned_descriptions", alert="hidden characters were removed"),
    *give("^it$", "descriptions_that_are_none", alert="description: Input should be a valid string"),
    *refuse("tools", "tools_are_missing", "tools_are_null", "tools_are_a_table"),
    *refuse("MCPError", "a_listing_is_a_string", "a_listing_is_a_list"),
    *give("^it$", "list_changed_and_then_mute", over=(STDIO,)),
    *give("^it$", "another_definition_each_time", over=(STDIO,), alert="has changed its tools"),
)

HANDSHAKES = (
    *refuse("was not ready within", "mute_from_the_beginning", seconds=SOON),
    *refuse("was not ready within", "mute_at_initialize", seconds=SOON, over=(STDIO, HTTP_LEGACY)),
    *refuse("ended with exit code 3", "dies_at_initialize", "dies_after_initialize", over=(STDIO,)),
    *refuse("ended with exit code 3", "dies_at_discover", "dies_after_discover", over=(STDIO_MODERN,)),
    *refuse("broke the connection", "dies_at_initialize", over=(HTTP_LEGACY,)),
    *give("^it$", "dies_at_discover", over=(HTTP,)),  # It may be one of the older era.
    *refuse("Unsupported protocol version", "refuses_every_version", "refuses_in_favour_of_the_stone_age"),
    *refuse("MCPError: no\\.", "refuses_without_a_reason"),
    *refuse("Method not found", "knows_no_method"),
    *give("^it$", "discovers_nonsense"),
    *refuse("1999-01-01", "another_protocol", over=(STDIO, HTTP_LEGACY)),
    *refuse("protocolVersion", "protocol_is_a_number", over=(STDIO, HTTP_LEGACY)),
    *refuse("capabilities", "initialized_with_nothing", "capabilities_are_a_list", over=(STDIO, HTTP_LEGACY)),
    *refuse("serverInfo", "a_name_that_is_no_string", over=(STDIO, HTTP_LEGACY)),
    *refuse("MCPError", "initialized_with_a_string", over=(STDIO, HTTP_LEGACY)),
    *give("^it$", "a_poisoned_name", over=(STDIO, HTTP_LEGACY)),
)

PROCESSES = tuple(
    case
    for cases in (
        refuse("ended with exit code 3.*no key", "dies_before_reading", over=(STDIO,)),
        refuse("was not ready within", "an_endless_line", seconds=SOON, over=(STDIO,), flood=True),
        fail(
            "timeout", "timed out", "an_endless_line_in_call", "an_endless_blank", "endless_notifications",
            seconds=SOON, over=(STDIO,), after="timeout", flood=True,
        ),
        give("^it$", "much_standard_error", "endless_standard_error", over=(STDIO,), flood=True),
        fail(
            LOST, "exit code 3", "standard_error_and_death",
            over=(STDIO,), alert="standard error:\n  [^\n]*red [^\n]*tagged\n  half",
        ),
        give("^it$", "ignores_its_end", "leaves_a_child", "leaves_a_daemon", over=(STDIO,)),
        fail(
            "timeout", "timed out", "ignores_its_end_in_call", "stops_itself",
            seconds=SOON, over=(STDIO,), after="timeout",
        ),
        fail(LOST, "exit code [03]", "leaves_a_child_and_dies", "goes_on_in_a_child", over=(STDIO,)),
        fail(LOST, "exit code 3", "leaves_a_daemon_and_dies", "no_newline_at_the_end", over=(STDIO,)),
        fail(
            LOST, "closed its standard output", "closes_its_output", "closes_all", "half_a_line_and_its_end",
            over=(STDIO,),
        ),
        give("^it$", "closes_its_input", over=(STDIO,), after=LOST),
        give("^it$", "never_reads_again", over=(STDIO,), seconds=SOON, after="timeout"),
    )
    for case in cases
)  # fmt: skip

_BROKEN_JSON = (
    *("json_that_is_empty", "json_that_is_broken", "json_in_a_batch", "json_that_is_nested", "json_in_latin1"),
    *("length_too_small", "chunks_cut", "chunks_that_are_none"),
)
_BROKEN_HEADERS = ("endless_headers", "headers_of_1_mib", "headers_that_are_none", "no_http", "length_that_is_none")

WEBS = tuple(
    case
    for cases in (
        *(
            refuse(f"answered {status}", f"status_{status}_first", over=(HTTP,))
            for status in (401, 403, 404, 405, 418, 429, 500, 503, 600)
        ),
        *(
            fail("execution", f"answered {status}", f"status_{status}_in_call", over=(HTTP,))
            for status in (401, 403, 405, 418, 429)
        ),
        *(fail(LOST, f"answered {status}", f"status_{status}_in_call", over=(HTTP,)) for status in (500, 600)),
        fail(LOST, "answered 503", "status_503_in_call", over=(HTTP,)),
        refuse("not followed", "status_301_first", "status_307_first", over=(HTTP, HTTP_LEGACY)),
        fail(
            "execution", "not followed", "status_301_in_call", "status_307_in_call", "redirects_to_itself",
            over=(HTTP,),
        ),
        fail("execution", "Not Found", "status_404_in_call", over=(HTTP,)),
        refuse("202 Accepted", "status_202_first", over=(HTTP,)),
        fail("execution", "202 Accepted", "status_202_in_call", over=(HTTP,)),
        refuse("Unexpected content type", "status_204_first", "status_206_first", "status_299_first", over=(HTTP,)),
        fail(
            "execution", "Unexpected content type", "status_204_in_call", "status_206_in_call", "status_299_in_call",
            "html", "no_content_type", over=(HTTP,),
        ),
        fail("execution", "error response", "an_error_page", over=(HTTP,)),
        fail("execution", "Not Found", "an_error_page_without_end", over=(HTTP,), flood=True),
        give("^it$", "json_and_nothing_else", "length_too_large", "another_session", over=(HTTP, HTTP_LEGACY)),
        # The SDK hands these on, and they answer nothing: the deadline ends the call.
        fail(
            "timeout", "timed out", "json_of_another_id", "json_that_is_a_notification", "json_that_is_a_request",
            seconds=SOON, over=(HTTP,),
        ),
        fail(LOST, UNUSABLE, *_BROKEN_JSON, over=(HTTP,)),
        fail(LOST, UNUSABLE, "json_of_64_mib", "json_without_end", "json_of_many_lists", over=(HTTP,), flood=True),
        fail("timeout", "timed out", "slow_json", "slow_headers", seconds=SOON, over=(HTTP,)),
        fail(LOST, "broke the connection", *_BROKEN_HEADERS, over=(HTTP,)),
        fail(LOST, "answered compressed", "compressed_in_bounds", "an_unknown_encoding", over=(HTTP,)),
        fail(
            LOST, "answered compressed", "a_bomb_as_json", "a_bomb_as_events", "a_bomb_as_an_error",
            over=(HTTP,), flood=True,
        ),
        refuse("answered compressed", "a_bomb_at_first", over=(HTTP,), flood=True),
        fail(
            "timeout", "timed out", "comments_without_end", "rare_comments_without_end",
            "events_to_be_resumed_next_year", "events_resumed_without_end", seconds=SOON, over=(HTTP,), flood=True,
        ),
        fail(LOST, UNUSABLE, "events_of_other_names", over=(HTTP,)),
        fail(LOST, "without a response", "an_answer_under_another_name", "events_without_an_answer", over=(HTTP,)),
        fail(LOST, "exceeded the 16777216", "an_event_without_end", over=(HTTP,), flood=True),
        fail("timeout", "timed out", "an_event_of_many_lines", over=(HTTP,), seconds=SOON, flood=True),
        fail(LOST, "attempts were exhausted", "events_to_be_resumed", "an_event_id_with_controls", over=(HTTP,)),
        give("^it$", "a_session_of_controls", "a_session_of_spaces", over=(HTTP_LEGACY,)),
        # The SDK ends by a header that it cannot send.
        refuse("broke the connection", "a_session_of_latin1", "a_session_of_1_mib", over=(HTTP_LEGACY,)),
        fail("execution", "Session terminated", "the_session_is_lost", over=(HTTP_LEGACY,)),
        give(
            "^it$", "an_endless_get_stream", "a_get_stream_of_nonsense", "a_get_stream_that_ends_at_once",
            over=(HTTP_LEGACY,), flood=True,
        ),
        give("^it$", "never_lets_go", over=(HTTP_LEGACY,)),
    )
    for case in cases
)  # fmt: skip

CASES: tuple[Case, ...] = (*CALLS, *LISTINGS, *HANDSHAKES, *PROCESSES, *WEBS)
