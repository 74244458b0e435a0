"""The state of a stream or a consumer as events with rates, and the diagnosis of a consumer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.diagnosis import Diagnosis, diagnose
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.consumers import both_of, consumer_of
from millstream.gateway.v2.operations import Section, Tag, json_answer
from millstream.gateway.v2.streams import stream_of, without_type
from millstream.gateway.v2.ticks import TickQuery, tick_answer, ticks
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkError

section: Final = Section(Tag.CONSUMERS)

_SAMPLES: Final = "$JS.EVENT.METRIC.CONSUMER.ACK"
_MOST_SAMPLES: Final = 2000
_CONSUMER: Final = "/streams/{stream}/consumers/{consumer}"


class Latency(msgspec.Struct, frozen=True):
    """Seconds from delivery to acknowledgement, of the last samples."""

    samples: int
    p50: float
    p90: float
    p99: float
    max: float


class _Metric(msgspec.Struct):
    ack_time: int = 0  # ns
    deliveries: int = 0


_metric: Final = msgspec.json.Decoder(_Metric)


class Growth:
    """The growth of numbers between two samples."""

    def __init__(self) -> None:
        self._then = 0.0
        self._values: dict[str, int] = {}

    def rates(self, values: dict[str, int]) -> dict[str, float] | None:
        """Return the growth a second since the last call; None at the first call."""
        now = time.monotonic()
        old, then = self._values, self._then
        self._values, self._then = values, now
        if not old or now <= then:
            return None
        return {name: round((value - old[name]) / (now - then), 1) for name, value in values.items()}


@section.get(
    "/streams/{stream}/state/live",
    "The state of a stream, again and again",
    tag=Tag.STREAMS,
    query=TickQuery,
    stream=True,
    answers=(tick_answer("state", "the stream's state and `rates`"),),
    problems=(404, 406),
)
async def read_stream_state_live(call: Call) -> Reply:
    """The state of the stream. `rates` has the new messages a second (`in_msgs`) and the growth a second of
    `messages` and `bytes`, which may be negative; it is null in the first event."""
    stream, pace = stream_of(call), Growth()

    async def look() -> dict[str, Any]:
        state = (await call.link.api(f"STREAM.INFO.{stream}"))["state"]
        numbers = {"in_msgs": "last_seq", "messages": "messages", "bytes": "bytes"}
        rates = pace.rates({name: int(state.get(field) or 0) for name, field in numbers.items()})
        return {**state, "rates": rates}

    return await ticks(call, "state", look, every_s=call.query.every)


@section.get(
    f"{_CONSUMER}/why",
    "Why a consumer does not deliver",
    answers=(json_answer(200, "causes, each with its evidence and what to do", Diagnosis),),
    problems=(404,),
)
async def read_why(call: Call) -> Reply:
    """A verdict (`delivering`, `blocked`, `idle` or `unknown`), its causes with their evidence, the most
    serious first, and the numbers behind it. Millstream reports more than other servers: the pending
    messages, the time of their delivery, and the time of their redelivery."""
    return answer(await diagnose(call.link, stream_of(call), consumer_of(call)))


@section.get(
    f"{_CONSUMER}/state/live",
    "The state of a consumer, again and again",
    query=TickQuery,
    stream=True,
    answers=(tick_answer("state", "the consumer, `rates` and `latency`"),),
    problems=(404, 406),
)
async def read_consumer_state_live(call: Call) -> Reply:
    """The state of the consumer. `rates` has deliveries and acks a second. `latency` has percentiles of the
    time to an acknowledgement, if the consumer has a `sample_freq` and the caller may read samples, and is
    null otherwise."""
    names, pace = both_of(call), Growth()
    samples: deque[float] = deque(maxlen=_MOST_SAMPLES)
    stop = _listen(call, f"{_SAMPLES}.{names}", samples)

    async def look() -> dict[str, Any]:
        info = without_type(await call.link.api(f"CONSUMER.INFO.{names}"))
        numbers = {"delivered": "delivered", "acked": "ack_floor"}
        rates = pace.rates(
            {name: int((info.get(field) or {}).get("consumer_seq") or 0) for name, field in numbers.items()}
        )
        return {**info, "rates": rates, "latency": latency_of(samples)}

    return await ticks(call, "state", look, every_s=call.query.every, close=stop)


def _listen(call: Call, subject: str, samples: deque[float]) -> Callable[[], None]:
    """Collect samples of acknowledgements; returns a function that ends it."""

    def take(messages: list[LinkMessage]) -> None:
        for message in messages:
            try:
                samples.append(_metric.decode(message.payload).ack_time / 1e9)
            except UNREADABLE_JSON:
                continue

    try:
        subscription = call.link.subscribe(subject, deliver=take)
    except LinkError:
        return lambda: None
    return subscription.unsubscribe


def latency_of(samples: deque[float]) -> Latency | None:
    """Return the percentiles of samples, or None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    last = len(ordered) - 1

    def part(share: float) -> float:
        return round(ordered[min(int(share * len(ordered)), last)], 6)

    return Latency(len(ordered), part(0.5), part(0.9), part(0.99), round(ordered[-1], 6))
