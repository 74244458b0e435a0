"""JSON of a server that is no JSON: strings that are no UTF-8, brackets without end."""

import pytest

from millstream.link.errors import ProtocolViolation
from millstream.link.login import read_info
from millstream.link.parser import LinkOp, LinkParser
from millstream.link.publish_window import PublishWindow, Receipts

UNREADABLE = [b'{"server_id":"\xff"}', b'{"a":' + b"[" * 5000, b"{", b"\xff"]


@pytest.mark.parametrize("text", UNREADABLE, ids=["utf8", "deep", "cut", "byte"])
def test_an_info_is_a_violation(text: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        read_info(text)


@pytest.mark.parametrize("text", UNREADABLE, ids=["utf8", "deep", "cut", "byte"])
def test_an_answer_to_a_publish_is_the_error_of_that_publish(text: bytes) -> None:
    window, receipts, parser = PublishWindow(b"I", 4), Receipts(), LinkParser()
    window.add(receipts, b"a", b"", b"x")
    text = text.replace(b"server_id", b"stream")
    parser.feed(b"MSG I.1 1 %d\r\n%b\r\n" % (len(text), text))
    assert parser.next() == LinkOp.MSG
    assert window.settle(parser)
    assert isinstance(receipts.errors[0], ProtocolViolation)
