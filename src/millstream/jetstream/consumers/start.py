"""Find where a consumer starts or continues, from its deliver policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millstream.base.slices import Pieces, finish
from millstream.jetstream.consumers.last_messages import LastOfEach, Singles
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DeliverPolicy
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.counts import count_in_pieces

if TYPE_CHECKING:
    from millstream.store.log import Log


class Counted(msgspec.Struct, frozen=True):
    """The number of messages that a consumer is to deliver, when it was counted."""

    messages: int
    upto: int  # the last sequence that is in it
    removals: int  # of the log at that time, see ``Feed.count``


class Sifted(NamedTuple):
    """The single messages of a consumer that match other patterns."""

    patterns: tuple[bytes, ...]
    singles: Singles  # that were looked through
    kept: Singles


class Start(msgspec.Struct, frozen=True):
    """The next sequence to look at, and single messages to deliver before."""

    sseq: int
    singles: Singles | None = None  # afterwards it goes on at `resume`
    resume: int = 0
    counted: Counted | None = None


def starts_with_lasts(config: ConsumerConfig, stream: StreamConfig) -> bool:
    """Return True if a consumer begins with the last message of each subject, and the stream has others."""
    return config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT and stream.max_msgs_per_subject != 1


def find_start(
    log: Log, config: ConsumerConfig, patterns: tuple[bytes, ...], *, one_per_subject: bool
) -> Start:
    """Find the start for a checked configuration; `one_per_subject`: the stream keeps only last messages."""
    if not log.last_seq and not config.opt_start_seq:
        return Start(max(log.first_seq, 1))
    match config.deliver_policy:
        case DeliverPolicy.LAST_PER_SUBJECT if not one_per_subject:
            return finish(last_per_subject(LastOfEach(log, patterns)))
        case DeliverPolicy.LAST:
            sseq = _last(log, patterns)
        case DeliverPolicy.NEW:
            sseq = log.last_seq + 1
        case DeliverPolicy.BY_START_SEQUENCE:
            return Start(max(config.opt_start_seq, log.first_seq, 1))
        case DeliverPolicy.BY_START_TIME:
            assert config.opt_start_time is not None
            sseq = log.seq_at_time(int(config.opt_start_time)) or log.last_seq + 1
            sseq = _first_wanted(log, sseq, patterns)
        case _:
            sseq = log.first_seq
    return Start(max(min(sseq, log.last_seq + 1), log.first_seq, 1))


def with_count(log: Log, start: Start, patterns: tuple[bytes, ...]) -> Pieces[Start]:
    """Return the start with the number of messages from there on, which is counted in pieces."""
    upto, removals = log.committed, log.last_seq - log.messages
    messages = yield from count_in_pieces(log, start.sseq, upto, patterns)
    if log.last_seq - log.messages != removals:
        return start  # it is counted again, at once
    return msgspec.structs.replace(start, counted=Counted(messages, upto, removals))


def find_rest(log: Log, patterns: tuple[bytes, ...], sseq: int, created_ns: int) -> Start:
    """Find where a consumer that began with the last of each subject continues, when it is done below `sseq`.

    Of the messages stored before its creation, those that were the last ones then remain.
    """
    resume = log.seq_at_time(created_ns + 1) or log.last_seq + 1
    singles: set[int] = set()
    if sseq < resume:
        for pattern in patterns or (b">",):
            for subject in log.subjects(pattern):
                last = log.last_of(subject)
                singles.add(last if last < resume else log.last_match(resume - 1, subject))
    left = sorted(single for single in singles if single >= sseq)
    return Start(left[0], Singles(left), resume) if left else Start(max(sseq, resume))


def _last(log: Log, patterns: tuple[bytes, ...]) -> int:
    if not patterns:
        return log.last_seq
    return max(log.last_match(log.last_seq, pattern) for pattern in patterns) or log.first_seq


def _first_wanted(log: Log, sseq: int, patterns: tuple[bytes, ...]) -> int:
    """Return the first message with one of the subjects, if none of them is older than the start time.

    Never moves to the last message of the stream.  The difference shows only in the consumer's info.
    """
    firsts = [log.next_match(log.first_seq, pattern) for pattern in patterns]
    first = min((each for each in firsts if each), default=0)
    return first if sseq < first < log.last_seq else sseq


def last_per_subject(lasts: LastOfEach) -> Pieces[Start]:
    """Find the start of a consumer that begins with the last message of each subject, in pieces."""
    singles = yield from lasts.gather()
    if not singles.first:
        return Start(max(lasts.resume - 1, lasts.log.first_seq, 1))
    return Start(singles.first, singles, lasts.resume)
