"""The changes of a consumer's durable state as plain data, which ``journal`` writes and recovers.

`sseq` is a sequence of the stream, `dseq` counts deliveries of the consumer, `at` is ns since 1970.
"""

from __future__ import annotations

import msgspec

from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerState


class Changes(msgspec.Struct):
    """The changes of a consumer since the last record in the journal.

    The first five fields are current values; the lists are differences.  A settled message that the journal
    has as pending must be in `gone`, whatever the floor is.
    """

    delivered_dseq: int = 0
    delivered_sseq: int = 0
    floor_dseq: int = 0
    floor_sseq: int = 0
    reserved: int = 0  # deliveries up to this dseq may go out; 0: as before
    pending: list[tuple[int, int, int]] = msgspec.field(
        default_factory=list
    )  # (sseq, dseq, at), new or moved
    gone: list[int] = []  # sseqs that were pending and are settled
    redelivered: list[tuple[int, int]] = []  # (sseq, count); 0: not any more

    def apply(self, state: ConsumerState) -> None:
        """Apply the changes to a state that has all earlier ones."""
        state.delivered_dseq = self.delivered_dseq
        state.delivered_sseq = self.delivered_sseq
        state.floor_dseq = self.floor_dseq
        state.floor_sseq = self.floor_sseq
        for sseq, dseq, at in self.pending:
            state.pending[sseq] = (dseq, at)
        for sseq in self.gone:
            state.pending.pop(sseq, None)
        for sseq, count in self.redelivered:
            if count:
                state.redelivered[sseq] = count
            else:
                state.redelivered.pop(sseq, None)

    def apply_after_loss(self, state: ConsumerState) -> None:
        """Apply the changes if earlier ones are lost: only what is true without them.

        A settled message stays settled.  A delivered message does not count as delivered, because the lost
        changes may have included others below it: `delivered_sseq` moves with the floor only, and everything
        above it is redelivered.
        """
        if self.floor_sseq > state.floor_sseq:
            state.floor_sseq = self.floor_sseq
            state.floor_dseq = max(state.floor_dseq, self.floor_dseq)
            state.delivered_sseq = max(state.delivered_sseq, state.floor_sseq)
            state.pending = {sseq: each for sseq, each in state.pending.items() if sseq > state.floor_sseq}
        state.delivered_dseq = max(state.delivered_dseq, self.delivered_dseq)
        for sseq in self.gone:
            state.pending.pop(sseq, None)
        for sseq, count in self.redelivered:
            if not count:
                state.redelivered.pop(sseq, None)
            elif sseq <= state.delivered_sseq:
                state.redelivered[sseq] = count

    @classmethod
    def whole(cls, state: ConsumerState, reserved: int) -> Changes:
        """Return a state as the changes that lead to it from nothing."""
        return cls(
            state.delivered_dseq,
            state.delivered_sseq,
            state.floor_dseq,
            state.floor_sseq,
            reserved,
            [(sseq, dseq, at) for sseq, (dseq, at) in state.pending.items()],
            [],
            list(state.redelivered.items()),
        )


class OpenLetter(msgspec.Struct, frozen=True):
    """A dead letter of a settled message, complete, because it may not be durable in its stream yet."""

    consumer: str
    created: int  # of the consumer, ns since 1970
    sseq: int  # of the message that the consumer settled
    identity: str  # of the stream of letters
    seq: int  # of the letter in that stream
    subject: bytes
    block: bytes
    payload: bytes


class Recovered(msgspec.Struct):
    """A consumer as found at a restart."""

    config: ConsumerConfig
    created: int  # ns since 1970
    state: ConsumerState
    reserved: int  # the next delivery has a higher dseq
    torn: bool = False  # changes were lost: more than necessary will be delivered again
