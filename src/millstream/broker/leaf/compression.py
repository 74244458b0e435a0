"""Compression of links: what both ends agree on, and the layer between a link and its transport.

    hub    INFO {compression: s2_auto} ──▶                    in clear
           ◀── INFO {compression: s2_fast}   spoke            in clear; then both directions are S2
           INFO {compression, nonce …} ──▶
           ◀── CONNECT {compress_mode …}

    link <-> transport              link <-> CompressedTransport <-> transport
    link <-> WebSocket <-> …        link <-> WebSocket <-> CompressedTransport <-> …

As in nats-server, frames of a websocket are packed, and not what is in them.

Each end packs as it likes, so only whether they pack is agreed.  Every write is packed at once: a message
never waits for others.  The other server is a stranger until it has logged in, so until then it may send
little, and a few bytes that stand for many are unpacked piece by piece, between which others have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from millstream.archive.frames import S2_BLOCK_SIZE, S2_START, ArchiveError, FrameReader, PackLevel, s2_frames
from millstream.broker.leaf.login import BadLogin
from millstream.broker.options import CompressionOptions
from millstream.broker.websocket import BaseWebSocket

if TYPE_CHECKING:
    from millstream.broker.leaf.connection import LeafConnection

NOT_SUPPORTED: Final = "not supported"
OFF: Final = "off"
ACCEPT: Final = "accept"
AUTO: Final = "s2_auto"
_LEVELS: Final = {
    "s2_uncompressed": PackLevel.NONE,
    "s2_fast": PackLevel.FAST,
    "s2_better": PackLevel.BETTER,
    "s2_best": PackLevel.BEST,
}
_BY_ROUND_TRIP: Final = tuple(_LEVELS)

_STRANGER_SPOKE: Final = 128 * 1024  # bytes that a spoke may say before it is known: CONNECT and little more
_STRANGER_HUB: Final = 4 * S2_BLOCK_SIZE  # a hub's confirmation may come with many subscriptions
_AT_ONCE: Final = 1024 * 1024  # bytes that are unpacked before others have their turn
_FRAME_WORK: Final = 1024  # bytes that a frame counts besides its content
_LEAST_S: Final = 1e-9  # of a round trip
_SLOW_SIZE: Final = 256 * 1024  # larger writes are packed fast: the loop would stand still for too long


def is_wanted(mode: str) -> bool:
    """Return True if a mode means that a link may be compressed."""
    return mode not in ("", OFF, NOT_SUPPORTED)


def agree(own: CompressionOptions, other: str, round_trip_s: float) -> str:
    """Return the mode of a link whose other end said `other`; raise BadLogin if that is no mode."""
    if not is_wanted(own.mode):
        return NOT_SUPPORTED if not other or own.mode == NOT_SUPPORTED else OFF
    if other in ("", NOT_SUPPORTED):
        return NOT_SUPPORTED
    if other == OFF or (other == ACCEPT and own.mode == ACCEPT):
        return OFF
    if other not in (ACCEPT, AUTO, *_LEVELS):
        raise BadLogin(f'unsupported compression mode "{other}"')
    if own.mode == ACCEPT:
        return "s2_fast" if other == AUTO else other
    return by_round_trip(own, round_trip_s) if own.mode == AUTO else own.mode


def by_round_trip(own: CompressionOptions, round_trip_s: float) -> str:
    """Return the mode that the thresholds choose; a threshold of 0 leaves a mode out."""
    thresholds = own.rtt_thresholds_s
    for at, threshold_s in enumerate(thresholds):
        if max(round_trip_s, _LEAST_S) <= threshold_s:
            return _BY_ROUND_TRIP[at]
    return _BY_ROUND_TRIP[3 if len(thresholds) >= 3 else len(thresholds) - 1]


def told(own: CompressionOptions, mode: str) -> str:
    """Return what INFO says after an agreement."""
    return AUTO if own.mode == AUTO else mode


def begin(link: LeafConnection, violated: Callable[[str], None]) -> None:
    """Compress from here on: what was sent before goes out in clear, and what comes in next is packed."""
    link.flush()
    stranger = _STRANGER_HUB if link.peer.remote is not None else _STRANGER_SPOKE
    layer = CompressedTransport(link, _LEVELS[link.peer.compression], stranger, violated)
    link.peer.layer = layer
    if isinstance(link.transport, BaseWebSocket):
        layer.join(link.transport, link.transport.put_below(layer))
    else:
        layer.join(link, link.transport)
        link.transport = layer


def follow(link: LeafConnection, own: CompressionOptions, round_trip_s: float) -> bool:
    """Pack as changed options want it; return False if the ends have to agree anew."""
    mode = link.peer.compression
    if mode in (NOT_SUPPORTED, own.mode):
        return True
    if link.peer.layer is None or own.mode in (NOT_SUPPORTED, OFF, ACCEPT):
        return False
    choose(link, by_round_trip(own, round_trip_s) if own.mode == AUTO else own.mode)
    return True


def choose(link: LeafConnection, mode: str) -> None:
    """Pack in another way from the next write on."""
    link.peer.compression = mode
    link.peer.layer.level = _LEVELS[mode]


def trust(link: LeafConnection) -> None:
    """Unpack whatever the other server sends, because it has logged in."""
    if link.peer.layer is not None:
        link.peer.layer.trust()


class CompressedTransport(asyncio.Protocol, asyncio.Transport):
    """Towards the real transport a protocol, towards the link or its websocket a transport."""

    def __init__(
        self, link: LeafConnection, level: PackLevel, stranger: int, violated: Callable[[str], None]
    ) -> None:
        asyncio.Transport.__init__(self)
        self.level = level
        self._link: Any = link
        self._above: Any
        self._transport: asyncio.Transport
        self._left: int | None = stranger  # bytes that it may still send; None: any number
        self._reader = FrameReader(min(stranger, S2_BLOCK_SIZE))
        self._violated = violated
        self._begun = False  # something was written
        self._paused = False  # by the link
        self._behind = False  # frames wait for their turn

    def join(self, above: Any, transport: asyncio.Transport) -> None:
        """Come between a transport and its protocol."""
        self._above, self._transport = above, transport
        transport.set_protocol(self)

    def trust(self) -> None:
        self._left = None
        self._reader.limit = S2_BLOCK_SIZE

    # -- what the real transport calls ----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._reader.add(data)
        if not (self._paused or self._behind):
            self._unpack()

    def eof_received(self) -> bool | None:
        return cast("bool | None", self._above.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        above, self._above, self._link = self._above, None, None  # so that reference counting can free all
        del self._violated
        above.connection_lost(exc)

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()

    def _unpack(self) -> None:
        """Hand frames to the link until there is none, it wants no more, or it is the turn of others."""
        done = 0
        while not (self._paused or self._link is None or self._link.closed):
            if done >= _AT_ONCE:
                self._put_off()
                return
            try:
                content = self._reader.next()
            except ArchiveError as error:
                self._violated(str(error))
                return
            if content is None:
                return
            done += len(content) + _FRAME_WORK
            if self._left is not None:
                self._left -= len(content) + _FRAME_WORK
                if self._left < 0:
                    self._violated("too much compressed input before the login")
                    return
            if content:
                self._above.data_received(content)

    def _put_off(self) -> None:
        if not self._behind:
            self._behind = True
            self._transport.pause_reading()
            self._link.broker.turns.soon(self._go_on)

    def _go_on(self) -> None:
        self._behind = False
        if self._link is None or self._link.closed:
            return
        self._unpack()
        if not (self._paused or self._behind or self._link is None or self._link.closed):
            self._transport.resume_reading()

    # -- what the link calls --------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        level = self.level if len(data) <= _SLOW_SIZE else min(self.level, PackLevel.FAST)
        frames = s2_frames(bytes(data), level)
        self._transport.write(frames if self._begun else S2_START + frames)
        self._begun = True

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, after the frames that have come already."""
        if self._paused:
            self._paused = False
            self._put_off()

    def close(self) -> None:
        self._transport.close()

    def close_with(self, reason: str) -> None:
        """Close, with a reason if the transport can tell it (a web socket)."""
        close_with = getattr(self._transport, "close_with", None)
        if close_with is not None:
            close_with(reason)
        else:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)
