"""The state of a stream in an archive, and its consumers with their configuration and state, as JSON.

    state.json        {"messages": 3, "first_seq": 7, "last_seq": 9, "consumer_count": 1, …}
    consumers/<name>  {"config": {…},
     "state": {"delivered": {"consumer_seq": 7, "stream_seq": 9},
               "ack_floor": {"consumer_seq": 4, "stream_seq": 5},
               "pending": {"6": {"Sequence": 5, "Timestamp": 1700000000000000000}, …},
               "redelivered": {"6": 1, …}}}

Not here: the format of older archives (``old_consumers``).
"""

from __future__ import annotations

from typing import Final

import msgspec

from millstream.archive.errors import ArchiveError, first_json
from millstream.base.errors import UNREADABLE_JSON
from millstream.jsapi.codec import JsonError, decode_lenient, encode
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerState
from millstream.jsapi.limits import LARGEST_SEQ
from millstream.jsapi.stream_types import StreamState

STATE: Final = "state.json"  # name of the first entry
CONSUMERS: Final = "consumers/"  # how the names of the next entries begin

_LARGEST: Final = 2**63 - 1


class ArchivedConsumer(msgspec.Struct):
    """A consumer in an archive."""

    name: str
    config: ConsumerConfig
    state: ConsumerState | None  # None: nothing delivered yet
    created: int = 0  # ns since 1970; 0: not in the archive


class _Place(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0


class _Pending(msgspec.Struct):
    Sequence: int = 0
    Timestamp: int = 0


class _State(msgspec.Struct, omit_defaults=True):
    delivered: _Place = msgspec.field(default_factory=lambda: _Place())
    ack_floor: _Place = msgspec.field(default_factory=lambda: _Place())
    pending: dict[int, _Pending] | None = None
    redelivered: dict[int, int] | None = None


class _Entry(msgspec.Struct):
    config: msgspec.Raw = msgspec.Raw()
    state: _State | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Entry)


def decode_stream(name: str, body: bytes) -> StreamState:
    """Decode the first entry; raise ArchiveError if it is not a possible state of a stream."""
    if name != STATE:
        raise ArchiveError("expected state.json first")
    try:
        state = decode_lenient(first_json(body), StreamState)
    except (JsonError, ArchiveError) as error:
        raise ArchiveError(f"error in state.json: {error}") from error
    _check_stream(state)
    return state


def _check_stream(state: StreamState) -> None:
    """Raise ArchiveError if no stream can have this state."""
    problem = ""
    first, last = state.first_seq, state.last_seq
    if state.consumer_count < 0:
        problem = "negative consumer count"
    elif max(first, last) >= LARGEST_SEQ:
        problem = "sequence out of range"
    elif (first == 0 and (last or state.messages)) or last < first - (1 if state.messages == 0 else 0):
        problem = "inconsistent message count or sequence range"
    elif state.messages > last - first + 1:
        problem = "message count exceeds sequence range"
    if problem:
        raise ArchiveError(f"invalid stream state: {problem}")


def encode_consumer(consumer: ArchivedConsumer, first_seq: int, last_seq: int) -> bytes:
    """Encode a consumer for an archive of the messages from `first_seq` to `last_seq`.

    The state is clipped to that range: nats-server ignores the state of a consumer that is before the first
    message.
    """
    state = consumer.state or ConsumerState()
    floor = max(min(state.floor_sseq, last_seq), first_seq - 1)
    delivered = max(min(state.delivered_sseq, last_seq), floor)
    shown = _State(
        _Place(state.delivered_dseq, delivered),
        _Place(state.floor_dseq, floor),
        {sseq: _Pending(*entry) for sseq, entry in state.pending.items() if floor < sseq <= last_seq} or None,
        {sseq: n for sseq, n in state.redelivered.items() if first_seq <= sseq <= last_seq} or None,
    )
    return b'{"config":%b,"state":%b}' % (encode(consumer.config), _encoder.encode(shown))


def decode_consumer(name: str, text: bytes) -> ArchivedConsumer:
    """Decode an entry; raise ArchiveError if it is invalid."""
    try:
        entry = _decode(text)
        config = None
        if bytes(entry.config) not in (b"", b"null"):
            config = decode_lenient(bytes(entry.config), ConsumerConfig)
    except (*UNREADABLE_JSON, JsonError, ArchiveError) as error:
        raise ArchiveError(f'failed to decode consumer "{name}" state: {error}') from error
    if config is None:
        raise ArchiveError(f'consumer "{name}" is missing config')
    if entry.state is None:
        raise ArchiveError(f'consumer "{name}" is missing state')
    found = entry.state
    state = ConsumerState(
        found.delivered.consumer_seq,
        found.delivered.stream_seq,
        found.ack_floor.consumer_seq,
        found.ack_floor.stream_seq,
        {sseq: (each.Sequence, each.Timestamp) for sseq, each in (found.pending or {}).items()},
        dict(found.redelivered or {}),
    )
    check_state(name, state)
    return ArchivedConsumer(config.durable_name or config.name or name, config, state)


def _decode(text: bytes) -> _Entry:
    try:
        return _decoder.decode(text)
    except UNREADABLE_JSON:
        return _decoder.decode(first_json(text))  # whose error messages are better


def check_state(name: str, state: ConsumerState) -> None:
    """Raise ArchiveError if no consumer can have this state."""

    def refuse(why: str) -> ArchiveError:
        return ArchiveError(f'failed to set consumer "{name}" state: {why}')

    numbers = (state.delivered_dseq, state.delivered_sseq, state.floor_dseq, state.floor_sseq)
    if not all(0 <= number <= _LARGEST for number in numbers):
        raise refuse("sequence out of range")
    if state.floor_dseq > state.delivered_dseq:
        raise refuse("bad ack floor for consumer")
    if state.floor_sseq > state.delivered_sseq:
        raise refuse("bad ack floor for stream")
    for sseq, (dseq, _) in state.pending.items():
        if not state.floor_sseq < sseq <= state.delivered_sseq or not 0 <= dseq <= _LARGEST:
            raise refuse(f"bad pending entry, sequence [{sseq}] out of range")
    for sseq, count in state.redelivered.items():
        if not 0 < sseq <= _LARGEST or not 0 <= count <= _LARGEST:
            raise refuse(f"bad redelivered entry, sequence [{sseq}] out of range")
