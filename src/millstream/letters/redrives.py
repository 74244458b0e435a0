"""Publishing of dead letters to their original subjects.

    publish to the original subject, with the id  redrive:<stream of letters>:<seq>
    ack  ──▶  delete the letter, and the original if it still blocks a work queue

A letter is deleted only after the server has stored its message, so an interruption loses nothing.  A letter
that is redriven again within the `duplicate_window` of the target stream is a duplicate and stored once;
after that time it would be stored twice, so finish an interrupted redrive soon, or give the target a longer
window. The Spark job `redrive` uses the same ids.

A letter names its own target, and its writer may have fewer rights than the user who redrives it.  So
subjects that belong to a server (`$JS…`, `$SYS…`, inboxes) are refused.
"""

from enum import StrEnum
from typing import Final

import msgspec

from millstream.golang.time import format_time
from millstream.jsapi import headers as wire
from millstream.jsapi.enums import RetentionPolicy
from millstream.jsapi.errors import Err
from millstream.jsapi.letter_headers import is_own_header
from millstream.letters.letter import Letter
from millstream.letters.streams import read_letter, read_letters
from millstream.link.errors import LinkApiError, LinkError
from millstream.link.link import Link
from millstream.link.publish_window import read_ack
from millstream.link.stored import message_at
from millstream.link.verbs import STREAM_INFO
from millstream.protocol.headers import Pairs
from millstream.subjects.tokens import valid_publish_subject

_PAGE: Final = 100


class RedriveOutcome(StrEnum):
    """The result of redriving a letter."""

    REDRIVEN = "redriven"  # the message is stored, and the letter is deleted
    DUPLICATE = "duplicate"  # the message was stored before, and the letter is deleted
    KEPT = "kept"  # the message is stored, but the letter could not be deleted
    NOT_FOUND = "not_found"  # there is no such letter
    REFUSED = "refused"  # the letter cannot be redriven, and stays
    FAILED = "failed"  # the server did not store the message, or did not answer; the letter stays


class Redriven(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result for one letter."""

    seq: int
    outcome: RedriveOutcome
    subject: str = ""
    stream: str = ""  # the stream that stored the message
    stored_seq: int = 0
    error: str = ""


class Edit(msgspec.Struct, frozen=True):
    """Changes to a letter before it is redriven; None leaves a part unchanged."""

    payload: bytes | None = None
    headers: Pairs | None = None


class RedrivenPage(msgspec.Struct, frozen=True):
    """Results; `next` is the sequence to continue at, 0 if no letter is left."""

    results: list[Redriven]
    next: int


async def redrive(link: Link, stream: str, seq: int, edit: Edit | None = None) -> Redriven:
    """Redrive one letter; failures are results, except a missing stream, which raises."""
    letter = await read_letter(link, stream, seq)
    if letter is None:
        return Redriven(seq, RedriveOutcome.NOT_FOUND)
    return await _put_back(link, stream, letter, edit)


async def redrive_all(link: Link, stream: str, *, start: int = 1, limit: int = 1000) -> RedrivenPage:
    """Redrive the present letters, up to `limit` from a sequence on, and stop at a failure."""
    about = (await link.ask(STREAM_INFO, stream)).info
    last = about.state.last_seq if about is not None else 0
    results: list[Redriven] = []
    while len(results) < limit:
        page = await read_letters(link, stream, start=start, limit=min(_PAGE, limit - len(results)))
        for letter in page.letters:
            if letter.seq > last:
                return RedrivenPage(results, 0)
            results.append(await _put_back(link, stream, letter, None))
            if results[-1].outcome is RedriveOutcome.FAILED:
                return RedrivenPage(results, letter.seq)
        if not page.next or page.next > last:
            return RedrivenPage(results, 0)
        start = page.next
    return RedrivenPage(results, start)


async def _put_back(link: Link, stream: str, letter: Letter, edit: Edit | None) -> Redriven:
    subject = letter.origin.subject
    problem = _problem(link, letter, edit)
    if problem:
        return Redriven(letter.seq, RedriveOutcome.REFUSED, subject, error=problem)
    payload = letter.payload if edit is None or edit.payload is None else edit.payload
    headers = letter.headers if edit is None or edit.headers is None else edit.headers
    pairs = [pair for pair in headers if is_own_header(pair[0])]
    pairs.append((wire.MSG_ID, f"redrive:{stream}:{letter.seq}"))
    try:
        ack = read_ack((await link.request(subject, payload, pairs)).payload)
    except LinkError as error:
        return Redriven(letter.seq, RedriveOutcome.FAILED, subject, error=str(error))
    if ack.duplicate and edit is not None:
        text = "the letter was put back already, as it was; the edited one is not stored"
        return Redriven(letter.seq, RedriveOutcome.REFUSED, subject, ack.stream, ack.seq, text)
    try:
        await _delete_original(link, letter)
        await _delete(link, stream, letter.seq)
    except LinkError as error:
        return Redriven(letter.seq, RedriveOutcome.KEPT, subject, ack.stream, ack.seq, str(error))
    done = RedriveOutcome.DUPLICATE if ack.duplicate else RedriveOutcome.REDRIVEN
    return Redriven(letter.seq, done, subject, ack.stream, ack.seq)


def _problem(link: Link, letter: Letter, edit: Edit | None) -> str:
    """Return the reason why a letter cannot be redriven; empty if it can."""
    subject = letter.origin.subject
    if not subject:
        return "the letter does not say where it belongs"
    if letter.is_gone and (edit is None or edit.payload is None):
        return "the letter has no message: the original was gone, or too large"
    if not valid_publish_subject(subject.encode(errors="surrogatepass")):
        return "the letter names no subject that can be published to"
    if subject.startswith("$") or f"{subject}.".startswith(f"{link.options.inbox_prefix}."):
        return f"{subject} belongs to the server, and no letter is sent there"
    return ""


async def _delete_original(link: Link, letter: Letter) -> None:
    """Delete the original from a work queue, where it would stay for ever, if it is the same message."""
    origin = letter.origin
    if not origin.stream or not origin.seq or not letter.consumer:
        return
    try:
        about = (await link.ask(STREAM_INFO, origin.stream)).info
        if about is None or about.config.retention is not RetentionPolicy.WORKQUEUE:
            return
        present = await message_at(link, origin.stream, origin.seq)
        if present is None or present.subject != origin.subject or not _same_time(present.time, origin.time):
            return
        await _delete(link, origin.stream, origin.seq)
    except LinkApiError as error:
        if error.err is not Err.STREAM_NOT_FOUND:
            raise


def _same_time(stored: int, text: str) -> bool:
    """Return whether two times are equal to the microsecond, the precision that pipelines keep."""
    return format_time(stored)[:26].rstrip("Z0.") == text[:26].rstrip("Z0.")


async def _delete(link: Link, stream: str, seq: int) -> None:
    try:
        await link.api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq, "no_erase": True})
    except LinkApiError:
        if await message_at(link, stream, seq) is not None:
            raise
