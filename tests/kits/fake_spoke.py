"""The other end of a leaf link, for a hub without sockets."""

import json
import re
from typing import Any

from millstream.archive.frames import S2_START, FrameReader, PackLevel, s2_frames
from millstream.broker.broker import Broker
from millstream.broker.options import CompressionOptions, LeafOptions
from tests.kits.broker import loop_of, make_broker
from tests.kits.fake_transport import FakeTransport


def hub(mode: str = "off") -> Broker:
    """Return a broker that accepts links, and their compression."""
    return make_broker(leaf=LeafOptions(port=7422, compression=CompressionOptions(mode=mode)))


def connect_line(name: str = "spoke", **fields: Any) -> bytes:
    connect = {"name": name, "server_id": name, "headers": True, "remote_account": "$G", **fields}
    return b"CONNECT " + json.dumps(connect).encode() + b"\r\n"


class FakeSpoke:
    """A spoke, which has logged in unless it is a `stranger`; with `packed`, it has asked for S2."""

    def __init__(
        self,
        broker: Broker,
        name: str = "spoke",
        *,
        stranger: bool = False,
        packed: bool = False,
        **fields: Any,
    ) -> None:
        assert broker.leafs is not None
        self._broker = broker
        self._reader: FrameReader | None = None
        self.link = broker.leafs.accept()
        extra = {"sockname": ("127.0.0.1", 7422)}
        self.transport = FakeTransport(loop_of(broker), self.link, extra=extra)
        self.link.connection_made(self.transport)
        self.said = self.heard()
        if packed:
            self.transport.receive(b'INFO {"compression": "s2_fast"}\r\n')
            self._reader = FrameReader()
            self.transport.receive(S2_START)
        if not stranger:
            self.said = self.say(connect_line(name, **fields), run=False)

    def say(self, data: bytes, *, run: bool = True) -> bytes:
        """Send bytes; return what came back."""
        if data:
            self.transport.receive(data if self._reader is None else s2_frames(data, PackLevel.FAST))
        if run:
            loop_of(self._broker).run_ready()
        return self.heard()

    def heard(self) -> bytes:
        data = bytes(self.transport.sent)
        self.transport.sent.clear()
        return data if self._reader is None else b"".join(self._reader.feed(data))

    def told(self) -> list[bytes]:
        """Return what it was told of subscriptions since the last call, without those of the server."""
        lines = re.findall(rb"LS[+-] [^\r]*", self.say(b""))
        return [line for line in lines if not line[4:].startswith((b"$", b"_"))]
