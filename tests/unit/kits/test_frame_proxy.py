"""The proxy for single frames: how it cuts the bytes of a server into frames."""

import pytest

from tests.kits.frame_proxy import FrameSplitter, ServerFrame

WIRE = (
    b'INFO {"max_payload":1}\r\n'
    b"PING\r\n"
    b"MSG a.b 1 5\r\nhe\r\no\r\n"
    b"MSG a.b 1 $JS.ACK.x 0\r\n\r\n"
    b"HMSG a 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    b"HMSG a 2 re.ply 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b"-ERR 'Stale Connection'\r\n"
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_frames_are_the_same_however_the_bytes_come(size: int) -> None:
    splitter = FrameSplitter()
    frames = [frame for i in range(0, len(WIRE), size) for frame in splitter.feed(WIRE[i : i + size])]
    assert frames == [
        ServerFrame(b'INFO {"max_payload":1}\r\n', "INFO"),
        ServerFrame(b"PING\r\n", "PING"),
        ServerFrame(b"MSG a.b 1 5\r\nhe\r\no\r\n", "MSG", "a.b"),
        ServerFrame(b"MSG a.b 1 $JS.ACK.x 0\r\n\r\n", "MSG", "a.b", "$JS.ACK.x"),
        ServerFrame(b"HMSG a 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "HMSG", "a"),
        ServerFrame(b"HMSG a 2 re.ply 12 12\r\nNATS/1.0\r\n\r\n\r\n", "HMSG", "a", "re.ply"),
        ServerFrame(b"-ERR 'Stale Connection'\r\n", "-ERR"),
    ]
    assert b"".join(frame.raw for frame in frames) == WIRE
