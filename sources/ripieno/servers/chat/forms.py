"""The forms of requests and answers of the native interface, of which its OpenAPI document is made."""

import typing
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from ripieno.canisters.controls import Finish
from ripieno.canisters.events import ExecutionProgress
from ripieno.servers.chat.event_forms import CALL, EVENTS, MESSAGE, RESULT, Binary, Question, form
from ripieno.storage.journal.statistics import Tally


class TurnText(TypedDict):
    """A text or reasoning of the turn under way, or of one that was cut off. ``sealed``: it is complete."""

    type: Literal["text", "reasoning"]
    text: str
    sealed: bool
    mime_type: NotRequired[str]
    bytes: NotRequired[int]
    reference: NotRequired[str]


class TurnBinary(Binary):
    """Another content of the turn under way."""

    sealed: bool


TURN_CALL: Any = form(
    "TurnCall",
    "A call of the turn under way. ``arguments`` is the text that has come; ``invocation`` is the complete call.",
    type=Literal["call"],
    index=int | None,
    identifier=str,
    name=str,
    tool=str,
    arguments=str,
    invocation=CALL | None,
    began=bool,
    progress=EVENTS[ExecutionProgress] | None,
    result=RESULT | None,
)


class Tokens(TypedDict):
    """Tokens, as the provider counts them."""

    input: int
    output: int


class UnfinishedAnswer(TypedDict):
    """An answer that is not complete. ``place`` counts the messages before it; ``finish`` is that of its run.

    The model reads nothing of ``texts``. Without them, the answer is the message before: it ended too early.
    """

    place: int
    texts: list[TurnText]
    finish: Finish | None


CONVERSATION = form(
    "Conversation",
    "A conversation as it is now. The events after ``position`` follow by ``/events?after=POSITION``. ``turn`` is the "
    "turn under way; after a run that was stopped, the one that was cut off. ``finish`` says how the last run ended. "
    "``answered`` are calls that wait for the answers to other questions. ``place`` counts the messages before "
    "``messages``; ``unfinished`` are answers that are not complete. ``elsewhere``: another process conducts it; "
    "it can be neither stopped nor continued here; ``Resync`` comes whenever that process has added something; "
    "``calls`` are those of its open calls that are running, or that are asked about there.",
    identifier=str,
    title=str,
    model=str | None,
    agent=str,
    tokens=Tokens,
    state=Literal["running", "waiting", "interrupted", "idle"],
    elsewhere=bool,
    calls=dict[str, Literal["running", "asked"]],
    messages=list[MESSAGE],
    place=int,
    unfinished=list[UnfinishedAnswer],
    turn=list[TurnText | TurnBinary | TURN_CALL],
    finish=Finish | None,
    questions=list[Question],
    answered=dict[str, Literal["approve", "deny", "edit"]],
    position=str,
)
PART = form(
    "Part",
    "Messages of a conversation; ``place`` counts those before. It begins with a turn, and may be longer than asked.",
    messages=list[MESSAGE],
    place=int,
    unfinished=list[UnfinishedAnswer],
)


class ConversationEntry(TypedDict):
    """A conversation in short. Times are ISO 8601 in UTC."""

    identifier: str
    title: str
    created: str
    changed: str
    model: str | None
    turns: int
    calls: int


class ConversationList(TypedDict):
    """The conversations of the owner, those first that were written last."""

    conversations: list[ConversationEntry]


class Created(TypedDict):
    """A new conversation."""

    identifier: str


class Done(TypedDict):
    """The request was carried out."""


class Left(TypedDict):
    """The number of questions that are left; with 0, the run goes on."""

    left: int


class OpenQuestions(TypedDict):
    """The open questions, by the identifiers of the conversations; and those that have a run now, in any process.

    ``changed`` is another number after a conversation has begun or ended a run, was renamed, or was deleted.
    """

    conversations: dict[str, list[Question]]
    running: list[str]
    changed: int


class Allowance(TypedDict):
    """Later calls of a tool run without a question: with any arguments, or with exactly these, as a text of JSON.

    It holds in its conversation, until it is taken back; until the server ends or, with workers, for seven days. ``at``
    is ISO 8601 in UTC.
    """

    identifier: str
    tool: str
    arguments: str | None
    at: str


class AllowanceList(TypedDict):
    """The owner's allowances: given with ``always``, by the identifiers of the conversations."""

    conversations: dict[str, list[Allowance]]


_COUNTS = typing.get_type_hints(Tally)
TALLY: Any = form("Tally", Tally.__doc__, **_COUNTS)
USAGE = form(
    "UsageReport",
    "Tokens and calls of the owner. Times are in milliseconds.",
    total=form("Total", "Counts of all conversations.", conversations=int, **_COUNTS, unfinished=int, asked=int),
    days=dict[str, TALLY],
    models=dict[str, TALLY],
)


class Title(TypedDict):
    """A title of at most 200 characters."""

    title: NotRequired[Annotated[str, Field(max_length=200)]]


FileName: TypeAlias = Annotated[str, Field(max_length=255)]


class Attachment(TypedDict):
    """An attachment in the message itself, in base64. ``name`` is that of its file."""

    mime_type: str
    data: str
    name: NotRequired[FileName]


class UploadedAttachment(TypedDict):
    """An attachment that was uploaded before. The message then has it; the upload is gone."""

    reference: str
    name: NotRequired[FileName]


class Upload(TypedDict):
    """A file that waits for its message, for an hour at most."""

    reference: str
    mime_type: str
    bytes: int


class Message(TypedDict):
    """A message of the user: a text, attachments, or both. Model and agent stay those of the conversation.

    An empty ``agent`` is none.
    """

    text: NotRequired[str]
    attachments: NotRequired[list[Attachment | UploadedAttachment]]
    model: NotRequired[str]
    agent: NotRequired[str]


class AnswerRequest(TypedDict):
    """An answer to a question, with the digest of what was shown.

    ``edit`` needs ``arguments``. With ``shown``, the digest of a revision, the call runs only as that showed it.
    """

    invocation: str
    answer: Literal["approve", "deny", "edit"]
    digest: str
    reason: NotRequired[str]
    always: NotRequired[bool]
    exact: NotRequired[bool]
    arguments: NotRequired[dict[str, Any]]
    shown: NotRequired[str]


class RevisionRequest(TypedDict):
    """Other arguments for a call that waits for approval, with the digest of what was shown."""

    invocation: str
    digest: str
    arguments: dict[str, Any]


class Revision(TypedDict):
    """The question as it is with these arguments. Nothing has run."""

    question: Question


class Delivery(TypedDict):
    """The result of a call that the client runs; with ``error``, it failed."""

    invocation: str
    text: str
    error: NotRequired[str]


class ErrorDetails(TypedDict):
    """The error, and what to do. ``param`` is the part of the request."""

    type: Literal["invalid_request_error", "server_error"]
    message: str
    code: str | None
    param: str | None


class Error(TypedDict):
    """A request that was refused."""

    error: ErrorDetails
