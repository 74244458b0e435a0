"""What one task reads: a range of a stream, how, and what its rows are checked against."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from millstream.spark.planning import Range

PULL = "pull"
DIRECT = "direct"
GET = "get"  # one message at a time
ARROW = "arrow"


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """Closed range `[low, high]`; nothing to read where `high` is below `low`."""

    stream: str
    low: int
    high: int
    transport: str = PULL
    fallback: str = ""  # for Arrow: what to use where it cannot be; empty: nothing
    filters: tuple[str, ...] = ()
    id: str = ""  # when the stream was created; empty: not checked
    dense: bool = False  # every sequence was there when the range was planned
    advisories: bool = False  # asking about the stream adds messages to it
    interest: bool = False  # messages go when all consumers have had them

    @classmethod
    def of(cls, part: Range, **how: object) -> "RangePartition":
        return cls(part.stream, part.low, part.high, **how)  # type: ignore[arg-type]


def nothing() -> RangePartition:
    """What stands for no partition at all: Spark would make one of its own, which says nothing."""
    return RangePartition("", 1, 0)
