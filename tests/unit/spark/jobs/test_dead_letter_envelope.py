"""A dead letter carries the original, where it came from and why it is dead."""

from millstream.spark.jobs.admin import AdminMessage
from millstream.spark.jobs.deadletters import letter

ADVISORY = {"stream": "ORDERS", "consumer": "NEW", "stream_seq": 7, "deliveries": 5, "kind": "max_deliver",
            "reason": None}  # fmt: skip


def test_a_letter_keeps_the_headers_of_the_publisher_and_none_of_the_server() -> None:
    headers = (("A", "1"), ("A", "2"), ("Nats-Msg-Id", "x"), ("Millstream-Orig-Seq", "1"))
    original = AdminMessage("orders.new", 7, "2026-01-01T00:00:00.5Z", headers, b"data")
    assert letter(ADVISORY, original, "dlq.{stream}.{consumer}") == {
        "data": b"data",
        "subject": "dlq.ORDERS.NEW",
        "headers": [
            ("A", ["1", "2"]),
            ("Millstream-Orig-Stream", ["ORDERS"]),
            ("Millstream-Orig-Seq", ["7"]),
            ("Millstream-Dlq-Consumer", ["NEW"]),
            ("Millstream-Dlq-Deliveries", ["5"]),
            ("Millstream-Dlq-Reason", ["max_deliver"]),
            ("Millstream-Orig-Time", ["2026-01-01T00:00:00.5Z"]),
            ("Millstream-Orig-Subject", ["orders.new"]),
        ],
        "msg_id": "dlq:ORDERS:NEW:7",
    }


def test_a_letter_is_written_when_the_original_is_gone() -> None:
    terminated = {**ADVISORY, "kind": "terminated", "reason": "bad payload"}
    made = letter(terminated, None, "dlq")
    headers = dict(made["headers"])  # type: ignore[call-overload]
    assert made["data"] == b""
    assert headers["Millstream-Dlq-Gone"] == ["true"]
    assert headers["Millstream-Dlq-Reason"] == ["terminated: bad payload"]
    assert "Millstream-Orig-Subject" not in headers
