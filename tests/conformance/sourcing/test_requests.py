"""Messages that a mirror or source sends: requests for consumers, answers to flow control."""

from collections import deque
from typing import Any

import pytest

from tests.kits.conformance.sourcing import Heard, Scene, mask


@pytest.mark.parametrize(
    "config",
    [
        {"mirror": {"name": "O"}},
        {"mirror": {"name": "O", "filter_subject": "o.1"}},
        {"mirror": {"name": "O", "opt_start_seq": 2}},
        {"mirror": {"name": "O", "opt_start_time": "2024-05-06T07:08:09.123Z"}},
        {
            "mirror": {
                "name": "O",
                "subject_transforms": [{"src": "o.1", "dest": "x"}, {"src": "o.2", "dest": "y"}],
            }
        },
        {"sources": [{"name": "O"}]},
        {"sources": [{"name": "O", "opt_start_seq": 2}, {"name": "P"}]},
        {"sources": [{"name": "O", "filter_subject": "o.1"}, {"name": "O"}]},
        {"sources": [{"name": "O", "opt_start_time": "2024-05-06T07:08:09.123Z"}]},
        {
            "sources": [
                {
                    "name": "O",
                    "subject_transforms": [{"src": "o.1", "dest": "x"}, {"src": "o.2", "dest": "y"}],
                }
            ]
        },
    ],
)
def test_requests_for_consumers(js: Scene, config: dict[str, Any]) -> None:
    js.stream("O", subjects=["o.>"])
    js.stream("P", subjects=["p.>"])
    requests = js.listen("$JS.API.CONSUMER.CREATE.>")
    js.stream("S", **config)
    asked(js, requests, len(config.get("sources", [0])))


def asked(js: Scene, requests: deque[Heard], count: int) -> None:
    def enough() -> bool:
        js.sync()
        return len(requests) >= count

    js.wait(enough, f"{count} requests")
    for text in sorted(mask(str(each)) for each in requests):
        js.note(f"    {text}")
    requests.clear()


def test_after_a_break_it_asks_for_what_is_missing(js: Scene) -> None:
    js.stream("O", subjects=["o.>"])
    js.publish("o.1", "one", "two")
    js.stream("S", sources=[{"name": "O"}])
    js.until("S", messages=2)
    requests = js.listen("$JS.API.CONSUMER.CREATE.>")
    deliveries = js.listen("$JS.S.*")
    js.publish("o.1", "three")
    js.until("S", messages=3)
    js.wait(lambda: js.sync() or deliveries, "a delivery")
    consumer = deliveries[0].reply.split(".")[3]
    js.ask(f"CONSUMER.DELETE.O.{consumer}")
    js.wait(lambda: js.sync() or requests, "another request", 40)
    asked(js, requests, 1)


def test_flow_control_is_answered_with_what_is_stored(js: Scene) -> None:
    js.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
    for _ in range(40):
        js.request("o", b"x" * 500_000)
    answers = js.listen("$JS.FC.>")
    js.stream("M", mirror={"name": "O"})
    js.until("M", patience_s=20, messages=40)
    js.wait(lambda: js.sync() or answers, "an answer")
    first = answers[0].block.decode().replace("\r\n", ";")
    words = [part.split(": ") for part in first.strip(";").split(";")[1:]]
    assert [name for name, _ in words] == ["Nats-Last-Consumer", "Nats-Last-Stream"]
    assert words[0][1] == words[1][1]
    assert 0 < int(words[0][1]) <= 40
