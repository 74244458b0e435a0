"""The work of one task: a range of a stream, how to read it, and what its rows are checked against."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from millstream.spark.plan import Range

PULL = "pull"
DIRECT = "direct"
GET = "get"  # one message at a time
ARROW = "arrow"


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """Closed range `[low, high]`; empty if `high` is below `low`."""

    stream: str
    low: int
    high: int
    transport: str = PULL
    fallback: str = ""  # the transport if Arrow is unusable; empty: none
    filters: tuple[str, ...] = ()
    id: str = ""  # creation time of the stream; empty: not checked
    dense: bool = False  # no sequence was missing when the range was planned
    advisories: bool = False  # requests about the stream add messages to it
    interest: bool = False  # messages are removed when all consumers have had them

    @classmethod
    def of(cls, part: Range, **how: object) -> "RangePartition":
        return cls(part.stream, part.low, part.high, **how)  # type: ignore[arg-type]


def nothing() -> RangePartition:
    """Return an empty partition, for plans without any: Spark would otherwise create one without content."""
    return RangePartition("", 1, 0)
