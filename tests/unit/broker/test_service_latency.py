"""The choice of requests to measure; `tests/conformance/accounts` has the measurements."""

import pytest

from millstream.broker.options import ServiceLatency
from millstream.broker.service_latency import chosen

B3 = b"NATS/1.0\r\nb3: 1\r\n\r\n"


@pytest.mark.parametrize(("sampling", "measured"), [(100, 100), (30, 30), (1, 1), (0, 0)])
def test_a_percentage_of_requests_is_measured(sampling: int, measured: int) -> None:
    latency = ServiceLatency("latency", sampling)
    outcomes = [chosen(latency, b"", lambda _, drawn=drawn: drawn) for drawn in range(100)]  # type: ignore[misc]
    assert sum(outcome is not None for outcome in outcomes) == measured


def test_headers_ask_whatever_the_percentage_is() -> None:
    for sampling in (0, 1):
        assert chosen(ServiceLatency("latency", sampling), B3, lambda _: 99) == {"B3": ["1"]}
    assert chosen(ServiceLatency("latency", 100), B3) == {}


@pytest.mark.parametrize("value", ["::::", "1:2:3:", "1:2:3:\u0661", "1:2:3:zz", "1:2:3:+1", "1:2:3:1_"])
def test_junk_asks_for_nothing(value: str) -> None:
    block = f"NATS/1.0\r\nuber-trace-id: {value}\r\n\r\n".encode()
    assert chosen(ServiceLatency("latency", 0), block) is None
