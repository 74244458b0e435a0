"""Start and end of a query as the user gives them: a sequence, a time, the last hundred, ten minutes ago.

A point holds the options.  `resolve` turns it into a sequence of one stream, given the stream's bounds and a
function that finds the first message at a time.  End sequences are exclusive, as in Kafka.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from millstream.spark import option_values as values
from millstream.tables.errors import OptionError

EARLIEST: Final = -2  # in JSON, as in Kafka
LATEST: Final = -1

# Returns the sequence of the first message at or after a time in ns; None if there is none.
SequenceAtTime = Callable[[int], int | None]


@dataclass(frozen=True)
class StartPoint:
    """The start of a query; exactly one of word, sequence, last, by_stream, time and times is set."""

    word: str | None = None  # earliest, latest
    sequence: int | None = None
    last: int | None = None  # a number of sequences from the end
    by_stream: tuple[tuple[str, int], ...] = ()
    time: str | None = None  # as given; "-10 minutes" counts from the start of the query
    times: tuple[tuple[str, str], ...] = ()  # by stream, as `time`
    or_latest: bool = False  # start at latest if no message is as late as `time`

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> Self:
        time = given.get("startingTimestamp")
        text = given.get("startingOffsets")
        times = given.get("startingOffsetsByTimestamp")
        strategy = given.get("startingOffsetsByTimestampStrategy")
        _refuse_both(given, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
        if time is not None or times is not None:
            choice = values.choice(
                "startingOffsetsByTimestampStrategy", strategy or "error", ("error", "latest")
            )
            if times is not None:
                by_stream = _times_by_stream("startingOffsetsByTimestamp", times)
                return cls(times=by_stream, or_latest=choice == "latest")
            values.moment("startingTimestamp", time or "", 0)
            return cls(time=time, or_latest=choice == "latest")
        if strategy is not None:
            raise OptionError(
                "option startingOffsetsByTimestampStrategy does nothing without startingTimestamp"
            )
        point = cls._of_text(text if text is not None else ("latest" if streaming else "earliest"))
        if not streaming and (point.word == "latest" or LATEST in dict(point.by_stream).values()):
            raise OptionError("a batch read that starts at latest reads nothing: startingOffsets is another")
        return point

    @classmethod
    def _of_text(cls, text: str) -> Self:
        text = text.strip()
        if text.lower() in ("earliest", "latest"):
            return cls(word=text.lower())
        if text.startswith("{"):
            return cls(by_stream=_by_stream("startingOffsets", text))
        if text.removeprefix("-").isdecimal():
            number = int(text)
            if number > 0:
                return cls(sequence=number)
            if number < 0:
                return cls(last=-number)
        raise OptionError(
            "option startingOffsets is earliest, latest, a sequence, -N for the last N, or JSON by stream, "
            f"not {text!r}"
        )

    def resolve(self, stream: str, first: int, after_last: int, now_ns: int, at_time: SequenceAtTime) -> int:
        """Return the sequence to start at; within `first` and `after_last` unless a sequence was given."""
        time = _time_of(stream, self.time, self.times, "startingOffsetsByTimestamp")
        if time is not None:
            found = at_time(values.moment("startingTimestamp", time, now_ns))
            if found is not None:
                return found
            if self.or_latest:
                return after_last
            raise OptionError(
                f"stream {stream} has no message as late as startingTimestamp={time}; "
                "startingOffsetsByTimestampStrategy=latest would start behind its last message"
            )
        if self.sequence is not None:
            return self.sequence
        if self.last is not None:
            return max(first, after_last - self.last)
        chosen = dict(self.by_stream).get(stream)
        if self.by_stream and chosen is None:
            raise OptionError(f"startingOffsets says nothing of stream {stream}")
        if chosen is not None and chosen >= 0:
            return max(chosen, 1)
        return after_last if self.word == "latest" or chosen == LATEST else first


@dataclass(frozen=True)
class EndPoint:
    """The end of a batch read; by default at the last message that exists when it is planned."""

    sequence: int | None = None
    by_stream: tuple[tuple[str, int], ...] = ()
    time: str | None = None
    times: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        time = given.get("endingTimestamp")
        text = given.get("endingOffsets")
        _refuse_both(given, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
        if "endingOffsetsByTimestamp" in given:
            times = _times_by_stream("endingOffsetsByTimestamp", given["endingOffsetsByTimestamp"])
            return cls(times=times)
        if time is not None:
            values.moment("endingTimestamp", time, 0)
            return cls(time=time)
        if text is None or text.strip().lower() == "latest":
            return cls()
        if text.strip().startswith("{"):
            by_stream = _by_stream("endingOffsets", text)
            if EARLIEST in dict(by_stream).values():
                raise OptionError("a batch read that ends at earliest (-2) reads nothing")
            return cls(by_stream=by_stream)
        if text.strip().isdigit() and int(text) > 0:
            return cls(sequence=int(text))
        raise OptionError(f"option endingOffsets is latest, a sequence, or JSON by stream, not {text!r}")

    def resolve(self, stream: str, after_last: int, now_ns: int, at_time: SequenceAtTime) -> int:
        """Return the first sequence that is not read, at most `after_last`."""
        time = _time_of(stream, self.time, self.times, "endingOffsetsByTimestamp")
        if time is not None:
            found = at_time(values.moment("endingTimestamp", time, now_ns))
            return after_last if found is None else found
        chosen = dict(self.by_stream).get(stream)
        if self.by_stream and chosen is None:
            raise OptionError(f"endingOffsets says nothing of stream {stream}")
        wanted = self.sequence if chosen is None else chosen
        return after_last if wanted is None or wanted == LATEST else min(wanted, after_last)


def _refuse_both(given: Mapping[str, str], *names: str) -> None:
    found = [name for name in names if name in given]
    if len(found) > 1:
        what = "start" if names[0].startswith("starting") else "end"
        raise OptionError(f"options {' and '.join(found)} both say the {what}; give one")


def _time_of(stream: str, time: str | None, times: tuple[tuple[str, str], ...], name: str) -> str | None:
    """Return the time that was given for a stream; None if the point is not a time."""
    if not times:
        return time
    found = dict(times).get(stream)
    if found is None:
        raise OptionError(f"{name} says nothing of stream {stream}")
    return found


def _times_by_stream(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return the times by stream; `{"S": {"0": time}}`, as for Kafka's partitions, is `{"S": time}`."""
    found: dict[str, str] = {}
    for stream, value in _object(name, text).items():
        if isinstance(value, dict):
            if list(value) != ["0"]:
                raise OptionError(f"option {name}: stream {stream} has only the partition 0")
            value = value["0"]
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise OptionError(f"option {name} gives stream {stream} no time, but {value!r}")
        values.moment(name, str(value), 0)
        found[stream] = str(value)
    return tuple(sorted(found.items()))


def _by_stream(name: str, text: str) -> tuple[tuple[str, int], ...]:
    parsed = _object(name, text)
    for stream, sequence in parsed.items():
        if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < EARLIEST:
            raise OptionError(f"option {name} gives stream {stream} no sequence, -1 or -2, but {sequence!r}")
    return tuple(sorted(parsed.items()))


def _object(name: str, text: str) -> dict[str, Any]:
    """Parse a JSON object that is not empty."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"option {name} is not JSON: {error}") from None
    if not isinstance(parsed, dict) or not parsed:
        raise OptionError(f"option {name} names no stream")
    return parsed
