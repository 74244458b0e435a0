"""How far a reading has come, and whether what arrives is what comes next.

The consumer sequence tells gaps: consumers number what they send, so the next message of the same consumer
has the next number.  The stream sequence tells where to go on: a consumer that has to be made anew starts
after the last good one.

    Progress.message ──▶ NEXT       hand it out
                         KNOWN      was handed out before: leave it
                         GAP        something is missing: the consumer must be made anew

Where the first consumer started is remembered too (`opened`), since "the newest" and "what is new" mean
something else when the question is asked again.

Last per subject is the one start that can not be continued by a sequence, because below the sequence where
it ends only some messages belong to it.  So it is asked for again, what was handed out is left, and where it
ends the consumer is made anew once more, to get each message after that end.

No I/O here, and no time.
"""

from enum import Enum

import msgspec

from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DeliverPolicy


class Verdict(Enum):
    NEXT = "next"
    KNOWN = "known"
    GAP = "gap"


class Progress:
    """`config` is what the user asked for; it is never changed."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.consumer_seq = 0  # the last one of the present consumer
        self.stream_seq = 0  # the last good one, or the one before the first
        self.seen_seq = 0  # of the last message that came; 0: none did
        self._config = config
        self._placed = False  # whether it is known where to go on
        self._snapshot_end = 0  # last per subject: the last sequence of the stream when it was asked for
        self._repeating = False  # whether the present consumer was asked for last per subject once more

    def ask(self, stream_last_seq: int) -> ConsumerConfig:
        """The configuration of the next consumer, for a stream whose last sequence is, or was, this one."""
        self.consumer_seq = 0
        self._repeating = False
        config = msgspec.structs.replace(self._config)
        if not self._placed:
            if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
                self._snapshot_end = stream_last_seq
            return config
        if self.in_snapshot:
            self._repeating = True
            return config
        config.deliver_policy = DeliverPolicy.BY_START_SEQUENCE
        config.opt_start_seq = self.stream_seq + 1
        config.opt_start_time = None
        return config

    def opened(self, delivered_consumer_seq: int, delivered_stream_seq: int) -> None:
        """The consumer was made; the server said what it had delivered by then."""
        if self._placed:
            return
        if self._snapshot_end:
            self._placed = True
        elif delivered_consumer_seq == 0:
            self.stream_seq = max(self.stream_seq, delivered_stream_seq)
            self._placed = True

    @property
    def in_snapshot(self) -> bool:
        """Whether messages of the last-per-subject start may still come."""
        return self.stream_seq < self._snapshot_end

    def message(self, consumer_seq: int, stream_seq: int) -> Verdict:
        """Judge a message of the present consumer."""
        if consumer_seq != self.consumer_seq + 1:
            # The same frame once more is harmless; a consumer that counts from 1 again is not.
            known = consumer_seq <= self.consumer_seq and stream_seq <= self.stream_seq
            return Verdict.KNOWN if known else Verdict.GAP
        if stream_seq <= self.stream_seq:
            self.consumer_seq = consumer_seq
            return Verdict.KNOWN
        if self._repeating and stream_seq > self._snapshot_end:
            self.stream_seq = self._snapshot_end  # between here and there may be more than the last ones
            return Verdict.GAP
        self.consumer_seq = consumer_seq
        self.stream_seq = self.seen_seq = stream_seq
        self._placed = True
        return Verdict.NEXT

    def heartbeat(self, last_consumer_seq: int) -> Verdict:
        """Judge what the consumer says it has sent."""
        return Verdict.NEXT if last_consumer_seq == self.consumer_seq else Verdict.GAP
