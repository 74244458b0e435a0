"""Dead letters: list the streams that have some, read them, and redrive them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from millstream.gateway.errors import BadRequest, NotFound
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.message_headers import JsonHeaders, from_json, to_json
from millstream.gateway.v2.messages import Payload, sequence_of
from millstream.gateway.v2.operations import Section, Tag, json_answer, json_body
from millstream.gateway.v2.payload import PayloadForm, body_of, fill_body
from millstream.gateway.v2.streams import stream_of
from millstream.golang.time import format_time
from millstream.letters import (
    Edit,
    Letter,
    LetterOrigin,
    LetterStream,
    Redriven,
    letter_streams,
    read_letter,
    read_letters,
    redrive,
    redrive_all,
)
from millstream.link.verbs import STREAM_INFO

section: Final = Section(Tag.DEAD_LETTERS)

_MOST_AT_ONCE: Final = 1000
_STREAM: Final = "/dead-letters/{stream}"

Sequence = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
AtOnce = Annotated[int, msgspec.Meta(ge=1, le=_MOST_AT_ONCE)]


class LetterStreams(msgspec.Struct):
    """Streams whose last message is a dead letter."""

    streams: list[LetterStream]


class LettersQuery(msgspec.Struct, frozen=True):
    start: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1, description="`next` of the page before")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=500, description="how many at most")] = 100
    payload: Payload = PayloadForm.AUTO


class LetterQuery(msgspec.Struct, frozen=True):
    payload: Payload = PayloadForm.AUTO


class DeadLetter(msgspec.Struct, omit_defaults=True):
    """A dead letter: its reason, the origin of its message, and the message."""

    seq: int
    subject: str
    time: str
    reason: str
    deliveries: int
    consumer: str
    origin: LetterOrigin
    can_be_redriven: bool
    is_gone: bool = False
    headers: JsonHeaders = msgspec.field(default_factory=dict)
    data: str | msgspec.UnsetType = msgspec.UNSET
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET


class Letters(msgspec.Struct, omit_defaults=True):
    """Letters in stream order."""

    letters: list[DeadLetter]
    next: int | None = None  # `start` of the next page; absent on the last one


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The letters to redrive: `seqs`, or `all` from `start` on; a single letter may be changed."""

    seqs: Annotated[list[Sequence], msgspec.Meta(max_length=_MOST_AT_ONCE)] = []
    all: bool = False
    start: Sequence = 1
    limit: AtOnce = _MOST_AT_ONCE
    headers: JsonHeaders | None = None
    data: str | msgspec.UnsetType = msgspec.UNSET
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET


class RedriveResults(msgspec.Struct, omit_defaults=True):
    """The result for each letter."""

    results: list[Redriven]
    next: int | None = None  # `start` of the next call, if letters are left


def _letter(letter: Letter, form: PayloadForm) -> DeadLetter:
    made = DeadLetter(
        letter.seq,
        letter.subject,
        format_time(letter.time),
        letter.reason,
        letter.deliveries,
        letter.consumer,
        letter.origin,
        letter.can_be_redriven,
        letter.is_gone,
        to_json(letter.headers),
    )
    fill_body(made, letter.payload, form)
    return made


@section.get(
    "/dead-letters",
    "List streams with dead letters",
    answers=(json_answer(200, "the streams", LetterStreams),),
    problems=(404,),
)
async def list_letter_streams(call: Call) -> Reply:
    """Streams whose name, subjects, description or metadata (`millstream.dead_letters`) suggest dead letters
    and whose last message is one. Letters of any other stream can be read by its name. Millstream's pipelines
    write letters; messages that a server gave up and no pipeline kept are not included."""
    return answer(LetterStreams(await letter_streams(call.link)))


@section.get(
    _STREAM,
    "Read dead letters",
    query=LettersQuery,
    answers=(json_answer(200, "letters, the oldest first", Letters),),
    problems=(404,),
)
async def list_letters(call: Call) -> Reply:
    """The letters of a stream, without its other messages. A page may have fewer than `limit`, or none, and
    still have a next page."""
    query: LettersQuery = call.query
    stream = stream_of(call)
    await call.link.ask(STREAM_INFO, stream)  # raises if it is not there
    page = await read_letters(call.link, stream, start=query.start, limit=query.limit)
    return answer(Letters([_letter(letter, query.payload) for letter in page.letters], page.next or None))


@section.get(
    f"{_STREAM}/{{seq}}",
    "Read a dead letter",
    query=LetterQuery,
    answers=(json_answer(200, "the letter", DeadLetter),),
    problems=(404,),
)
async def read_one_letter(call: Call) -> Reply:
    """The letter with this sequence in its stream."""
    letter = await read_letter(call.link, stream_of(call), sequence_of(call))
    if letter is None:
        raise NotFound(f"{stream_of(call)} has no dead letter {sequence_of(call)}")
    return answer(_letter(letter, call.query.payload))


@section.post(
    f"{_STREAM}/redrive",
    "Put dead letters back",
    body=json_body(RedriveRequest),
    answers=(json_answer(200, "what became of each letter", RedriveResults),),
    problems=(404, 415),
)
async def redrive_letters(call: Call) -> Reply:
    """Publishes letters to their original subjects and deletes each when it is stored there. A letter that is
    redriven again after an interruption is stored once, within the duplicate window of its stream. Letters
    that name a subject of the server are refused. With `all`, the call stops at a failure, and the next call
    continues at `next`. A single letter may get another body (`data`, `json` or `base64`) and other
    `headers`."""
    wanted = await call.json(RedriveRequest)
    stream = stream_of(call)
    await call.link.ask(STREAM_INFO, stream)  # raises if it is not there
    edit = _edit(wanted)
    if wanted.all == bool(wanted.seqs):
        raise BadRequest("give one of `seqs` and `all`")
    if edit is not None and len(wanted.seqs) != 1:
        raise BadRequest("only the message of one letter can be changed")
    if wanted.all:
        page = await redrive_all(call.link, stream, start=wanted.start, limit=wanted.limit)
        return answer(RedriveResults(page.results, page.next or None))
    results = [await redrive(call.link, stream, seq, edit) for seq in dict.fromkeys(wanted.seqs)]
    return answer(RedriveResults(results))


def _edit(wanted: RedriveRequest) -> Edit | None:
    """Return the changes to a message, or None."""
    given = (wanted.data, wanted.json, wanted.base64)
    payload = None if all(each is msgspec.UNSET for each in given) else body_of(*given)
    headers = from_json(wanted.headers) if wanted.headers is not None else None
    return Edit(payload, headers) if payload is not None or headers is not None else None
