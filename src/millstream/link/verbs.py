"""The table of JetStream API requests: subject, type of the answer, and whether a repeat is safe.

    answer = await link.ask(STREAM_INFO, "ORDERS")                # a StreamInfoResponse
    fields = await link.api("STREAM.UPDATE.ORDERS", config)       # the answer as it came, a dict

The names after a verb replace the wildcards of its subject, in order.  The link sets the prefix of the
subject: another domain, or an account that imports the API under another name.  `api` returns answers as
dicts, and finds its verb in the same table.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.golang.json import MOST_VALUES
from millstream.jsapi import names
from millstream.jsapi import responses as answers
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.errors import ErrorBody
from millstream.link.errors import BadMessage, LinkApiError, ProtocolViolation

Answer = TypeVar("Answer", bound=answers.Response)


class Verb(Generic[Answer]):
    """One kind of API request."""

    __slots__ = ("answer", "name", "repeatable", "subject")

    def __init__(self, subject: str, answer: type[Answer], *, repeatable: bool = False) -> None:
        self.subject: Final = subject
        self.answer: Final = answer
        self.repeatable: Final = repeatable  # a repeated request has the same effect as one
        self.name: Final = subject.removeprefix(f"{names.API_PREFIX}.").rstrip(".*>")

    def __repr__(self) -> str:
        return f"<Verb {self.name}>"

    def subject_for(self, prefix: str, tokens: tuple[str, ...]) -> str:
        """Return the subject of a request about `tokens`; raises BadMessage if their number is wrong."""
        try:
            filled = names.fill(self.subject, *tokens)
        except (ValueError, IndexError):
            raise BadMessage(f"{self.name} cannot be asked about {', '.join(tokens) or 'nothing'}") from None
        return prefix + filled.removeprefix(names.API_PREFIX)


ACCOUNT_INFO: Final = Verb(names.ACCOUNT_INFO, answers.AccountInfoResponse, repeatable=True)
STREAM_CREATE: Final = Verb(names.STREAM_CREATE, answers.StreamCreateResponse)
STREAM_UPDATE: Final = Verb(names.STREAM_UPDATE, answers.StreamUpdateResponse)
STREAM_NAMES: Final = Verb(names.STREAM_NAMES, answers.StreamNamesResponse, repeatable=True)
STREAM_LIST: Final = Verb(names.STREAM_LIST, answers.StreamListResponse, repeatable=True)
STREAM_INFO: Final = Verb(names.STREAM_INFO, answers.StreamInfoResponse, repeatable=True)
STREAM_DELETE: Final = Verb(names.STREAM_DELETE, answers.StreamDeleteResponse)
STREAM_PURGE: Final = Verb(names.STREAM_PURGE, answers.StreamPurgeResponse)
STREAM_MSG_GET: Final = Verb(names.STREAM_MSG_GET, answers.MsgGetResponse, repeatable=True)
STREAM_MSG_DELETE: Final = Verb(names.STREAM_MSG_DELETE, answers.MsgDeleteResponse)
STREAM_SNAPSHOT: Final = Verb(names.STREAM_SNAPSHOT, answers.StreamSnapshotResponse)
STREAM_RESTORE: Final = Verb(names.STREAM_RESTORE, answers.StreamRestoreResponse)
CONSUMER_CREATE: Final = Verb(names.CONSUMER_CREATE_FILTERED, answers.ConsumerCreateResponse)
CONSUMER_DURABLE_CREATE: Final = Verb(names.CONSUMER_DURABLE_CREATE, answers.ConsumerCreateResponse)
CONSUMER_NAMES: Final = Verb(names.CONSUMER_NAMES, answers.ConsumerNamesResponse, repeatable=True)
CONSUMER_LIST: Final = Verb(names.CONSUMER_LIST, answers.ConsumerListResponse, repeatable=True)
CONSUMER_INFO: Final = Verb(names.CONSUMER_INFO, answers.ConsumerInfoResponse, repeatable=True)
CONSUMER_DELETE: Final = Verb(names.CONSUMER_DELETE, answers.ConsumerDeleteResponse)
CONSUMER_PAUSE: Final = Verb(names.CONSUMER_PAUSE, answers.ConsumerPauseResponse)
CONSUMER_RESET: Final = Verb(names.CONSUMER_RESET, answers.ConsumerResetResponse)
CONSUMER_UNPIN: Final = Verb(names.CONSUMER_UNPIN, answers.ConsumerUnpinResponse)

VERBS: Final = {verb.name: verb for verb in list(globals().values()) if isinstance(verb, Verb)}


def verb_of(name: str) -> Verb[Any]:
    """Return the verb of a request such as ``STREAM.INFO.ORDERS``; raises BadMessage if there is none."""
    end = len(name)
    while end > 0:
        found = VERBS.get(name[:end])
        if found is not None:
            return found
        end = name.rfind(".", 0, end)
    raise BadMessage(f"{name[:256]!r} is no request of the JetStream API")


def request_body(request: object) -> bytes:
    """Return the JSON of a request; bytes are returned unchanged."""
    return request if isinstance(request, bytes) else msgspec.json.encode(request)


def read_fields(payload: bytes, context: str) -> dict[str, Any]:
    """Return the answer as a dict; raises LinkApiError for an error, ProtocolViolation if it is malformed."""
    try:
        fields = msgspec.json.decode(payload)
    except UNREADABLE_JSON:
        fields = None
    if not isinstance(fields, dict):
        raise ProtocolViolation(f"the answer to {context} is no JSON object")
    error = fields.get("error")
    if error:
        raise _refusal(error, context)
    return fields


def _refusal(error: Any, context: str) -> LinkApiError:
    try:
        body = msgspec.convert(error, ErrorBody, strict=False)
    except msgspec.ValidationError:
        return LinkApiError(500, 0, "the server refused, and does not say why", context)
    return LinkApiError(body.code, body.err_code, body.description, context)


def read_answer(payload: bytes, verb: Verb[Answer]) -> Answer:
    """Return the answer in its type; raises as `read_fields` does."""
    try:
        answer = decode_lenient(payload, verb.answer, MOST_VALUES)
    except JsonError as error:
        raise ProtocolViolation(f"the answer to {verb.name} can not be read: {error}") from None
    if answer.error is not None:
        raise LinkApiError(answer.error.code, answer.error.err_code, answer.error.description, verb.name)
    return answer
