"""Where a message came from, as headers and ids: what replay, dead letters and redrive agree on.

``Millstream-Orig-Stream``, ``-Seq``, ``-Time`` and ``-Subject`` name a message as it was first stored.  A
header of the server's own (``Nats-…``) is about a message in *its* stream and is not carried along.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

ORIG_STREAM: Final = "Millstream-Orig-Stream"
ORIG_SEQ: Final = "Millstream-Orig-Seq"
ORIG_TIME: Final = "Millstream-Orig-Time"
ORIG_SUBJECT: Final = "Millstream-Orig-Subject"
DLQ_CONSUMER: Final = "Millstream-Dlq-Consumer"
DLQ_DELIVERIES: Final = "Millstream-Dlq-Deliveries"
DLQ_REASON: Final = "Millstream-Dlq-Reason"
DLQ_GONE: Final = "Millstream-Dlq-Gone"  # the original could not be fetched any more

OUR_PREFIX: Final = "millstream-"
SERVER_PREFIX: Final = "nats-"
HEADERS_TYPE: Final = "map<string,array<string>>"


def own_headers(headers: Column) -> Column:
    """The headers that the publisher of a message gave it."""

    def is_own(name: Column, _: Column) -> Column:
        lower = F.lower(name)
        return ~(lower.startswith(SERVER_PREFIX) | lower.startswith(OUR_PREFIX))

    return F.coalesce(F.map_filter(headers, is_own), F.expr(f"cast(map() as {HEADERS_TYPE})"))


def is_own_header(name: str) -> bool:
    """`own_headers` for one name."""
    return not name.lower().startswith((SERVER_PREFIX, OUR_PREFIX))


def with_headers(headers: Column, **extra: Column) -> Column:
    """Headers and further ones, whose names are given with `_` for `-`."""
    pairs: list[Column] = []
    for name, value in extra.items():
        pairs += [F.lit(name.replace("_", "-")), F.array(value.cast("string"))]
    return F.map_concat(own_headers(headers), F.create_map(*pairs))


def origin_headers(**more: Column) -> Column:
    """The headers of a row of a stream or an archive, with its origin and further ones."""
    return with_headers(
        F.col("headers"),
        Millstream_Orig_Stream=F.col("stream"),
        Millstream_Orig_Seq=F.col("seq"),
        Millstream_Orig_Time=rfc3339(F.col("time")),
        Millstream_Orig_Subject=F.col("subject"),
        **more,
    )


def rfc3339(time: Column) -> Column:
    """A timestamp as text in UTC, whatever the zone of the session."""
    utc = F.convert_timezone(None, F.lit("UTC"), time.cast("timestamp_ntz"))
    return F.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def first_header(name: str) -> Column:
    """The first value of a header of a row; null if it has none."""
    return F.try_element_at(F.try_element_at(F.col("headers"), F.lit(name)), F.lit(1))
