"""Where a consumer begins, or goes on: from a deliver policy to a place in the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from millstream.base.slices import Pieces, finish
from millstream.jetstream.consumers.singles import LastOfEach, Singles
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DeliverPolicy
from millstream.jsapi.stream_types import StreamConfig

if TYPE_CHECKING:
    from millstream.store.log import Log


class Start(msgspec.Struct, frozen=True):
    """The next sequence to look at; and what to deliver before, one by one."""

    sseq: int
    singles: Singles | None = None  # afterwards it goes on at `resume`
    resume: int = 0


def starts_with_lasts(config: ConsumerConfig, stream: StreamConfig) -> bool:
    """Tell whether a consumer begins with the last message of each subject, and the stream has others."""
    return config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT and stream.max_msgs_per_subject != 1


def find_start(
    log: Log, config: ConsumerConfig, patterns: tuple[bytes, ...], *, one_per_subject: bool
) -> Start:
    """Of a checked configuration; `one_per_subject`: the stream keeps only the last of each anyway."""
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


def find_rest(log: Log, patterns: tuple[bytes, ...], sseq: int, created_ns: int) -> Start:
    """Where one that began with the last message of each subject goes on, when it is done below `sseq`.

    Of what was stored before it was created, these are still the messages that were the last then.
    """
    resume = log.seq_at_time(created_ns + 1) or log.last_seq + 1
    singles: set[int] = set()
    if sseq < resume:
        for pattern in patterns or (b">",):
            for subject, _ in log.index.match(pattern):
                last = log.last_of(subject)
                singles.add(last if last < resume else log.last_match(resume - 1, subject))
    left = sorted(single for single in singles if single >= sseq)
    return Start(left[0], Singles(left), resume) if left else Start(max(sseq, resume))


def _last(log: Log, patterns: tuple[bytes, ...]) -> int:
    if not patterns:
        return log.last_seq
    return max(log.last_match(log.last_seq, pattern) for pattern in patterns) or log.first_seq


def _first_wanted(log: Log, sseq: int, patterns: tuple[bytes, ...]) -> int:
    """A start time leads to the first message with one of the subjects, if none of them is older.

    The last message of the stream is never gone to.  That only shows in the consumer's info.
    """
    firsts = [log.next_match(log.first_seq, pattern) for pattern in patterns]
    first = min((each for each in firsts if each), default=0)
    return first if sseq < first < log.last_seq else sseq


def last_per_subject(lasts: LastOfEach) -> Pieces[Start]:
    """The same for a consumer that begins with the last message of each subject, in pieces."""
    singles = yield from lasts.gather()
    if not singles.first:
        return Start(max(lasts.resume - 1, lasts.log.first_seq, 1))
    return Start(singles.first, singles, lasts.resume)
