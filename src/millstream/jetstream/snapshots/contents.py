"""Produce the content of a snapshot while the stream continues.

    contents = Contents(stream, consumers=True)     # the stream as it is now
    ... when ``contents.is_durable()``:
    while contents.prepare():                       # on the loop
        data += contents.produce()                  # in a worker: some more bytes of the archive
    contents.close()

Messages come from a frozen log (``store.frozen``), so messages published, removed or acknowledged meanwhile
do not change the archive.  Only a small part of it is in memory at a time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.archive.states import CONSUMERS, STATE, ArchivedConsumer, encode_consumer
from millstream.archive.writer import ArchiveWriter
from millstream.jetstream.consumers.state_saver import portable_state_of
from millstream.jetstream.snapshots.messages import fill
from millstream.jsapi.codec import encode
from millstream.store.frozen import Frozen
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_AT_ONCE: Final = 128 * 1024  # bytes; then yield to other threads, which would wait for 5 ms
_PRODUCED: Final = 1024 * 1024  # uncompressed bytes of one call


class Contents:
    """The content of one snapshot; see the module."""

    def __init__(self, stream: Stream, *, consumers: bool) -> None:
        self.state = stream.state()
        self._log = stream.log
        self._now_ns = stream.world.now_ns()
        self._frozen = Frozen(stream.log)
        self._consumers = [
            ArchivedConsumer(each.name, each.config, portable_state_of(each.ledger))
            for each in stream.consumers.values()
            if consumers and not each.config.direct
        ]
        self._writer = ArchiveWriter()
        self._record = Record()
        self._begun = False
        self._more = False  # the current segment has more messages
        self._read = False  # all segments were read
        self._ended = False

    def is_durable(self) -> bool:
        """Return True if all messages of the snapshot are durable."""
        return self._log.committed >= self._frozen.last_seq

    def prepare(self) -> bool:
        """Prepare the next call of ``produce``; return False if everything was produced."""
        if self._ended:
            return False
        if self._begun and not self._more:
            self._more = self._frozen.enter()
            self._read = not self._more
        return True

    def produce(self) -> bytes:
        """Return the next bytes of the archive; raise StoreError if a message cannot be read."""
        out = [] if self._begun else [self._begin()]
        writer = self._writer
        produced = 0
        while self._more and produced < _PRODUCED:
            time.sleep(0)
            self._more = fill(writer.entries, self._frozen, self._record, _AT_ONCE)
            produced += writer.entries.size
            out.append(writer.take())
        if self._read:
            out.append(writer.finish())
            self._ended = True
        self._begun = True
        return b"".join(out)

    def _begin(self) -> bytes:
        """Return everything before the messages."""
        state, writer, now = self.state, self._writer, self._now_ns
        counted = msgspec.structs.replace(state, consumer_count=len(self._consumers))
        writer.add(STATE, now, encode(counted))
        out = []
        for consumer in self._consumers:
            writer.add(
                CONSUMERS + consumer.name, now, encode_consumer(consumer, state.first_seq, state.last_seq)
            )
            out.append(writer.take())
        self._consumers = []
        return b"".join(out)

    def note_damage(self) -> None:
        """Make the log check the message that could not be read, after an error."""
        if self._frozen.damaged:
            self._log.peek(self._frozen.damaged, Record())

    def close(self) -> None:
        """Release the frozen log; not while ``produce`` runs."""
        self._frozen.close()
