"""The origin of a message as headers and ids, shared by replay, dead letters and redrive.

``Millstream-Orig-Stream``, ``-Seq``, ``-Time`` and ``-Subject`` identify a message as it was first stored.
Headers of the server (``Nats-…``) describe a message in *its* stream and are not copied.
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
DLQ_GONE: Final = "Millstream-Dlq-Gone"  # the original no longer existed

OUR_PREFIX: Final = "millstream-"
SERVER_PREFIX: Final = "nats-"
HEADERS_TYPE: Final = "map<string,array<string>>"


def own_headers(headers: Column) -> Column:
    """Return the headers that the publisher of a message set."""

    def is_own(name: Column, _: Column) -> Column:
        lower = F.lower(name)
        return ~(lower.startswith(SERVER_PREFIX) | lower.startswith(OUR_PREFIX))

    return F.coalesce(F.map_filter(headers, is_own), F.expr(f"cast(map() as {HEADERS_TYPE})"))


def is_own_header(name: str) -> bool:
    """Return True if the publisher of a message may have set this header."""
    return not name.lower().startswith((SERVER_PREFIX, OUR_PREFIX))


def with_headers(headers: Column, **extra: Column) -> Column:
    """Return the publisher's headers and further ones, whose names are given with `_` for `-`."""
    pairs: list[Column] = []
    for name, value in extra.items():
        pairs += [F.lit(name.replace("_", "-")), F.array(value.cast("string"))]
    return F.map_concat(own_headers(headers), F.create_map(*pairs))


def origin_headers(**more: Column) -> Column:
    """Return the publisher's headers of a row, with its origin and further headers."""
    return with_headers(
        F.col("headers"),
        Millstream_Orig_Stream=F.col("stream"),
        Millstream_Orig_Seq=F.col("seq"),
        Millstream_Orig_Time=rfc3339(F.col("time")),
        Millstream_Orig_Subject=F.col("subject"),
        **more,
    )


def rfc3339(time: Column) -> Column:
    """Return a timestamp as text in UTC, whatever the session's time zone."""
    utc = F.convert_timezone(None, F.lit("UTC"), time.cast("timestamp_ntz"))
    return F.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def first_header(name: str) -> Column:
    """Return the first value of a row's header, or null."""
    return F.try_element_at(F.try_element_at(F.col("headers"), F.lit(name)), F.lit(1))
