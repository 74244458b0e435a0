"""The origin of a message as headers and ids, shared by replay, dead letters and redrive.

``Millstream-Orig-Stream``, ``-Seq``, ``-Time`` and ``-Subject`` identify a message as it was first stored.
Headers of the server (``Nats-…``) describe a message in *its* stream and are not copied.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from millstream.jsapi.letter_headers import (
    DLQ_CONSUMER,
    DLQ_DELIVERIES,
    DLQ_GONE,
    DLQ_REASON,
    ORIG_SEQ,
    ORIG_STREAM,
    ORIG_SUBJECT,
    ORIG_TIME,
    OUR_PREFIX,
    SERVER_PREFIX,
    is_own_header,
)

__all__ = [
    "DLQ_CONSUMER",
    "DLQ_DELIVERIES",
    "DLQ_GONE",
    "DLQ_REASON",
    "HEADERS_TYPE",
    "ORIG_SEQ",
    "ORIG_STREAM",
    "ORIG_SUBJECT",
    "ORIG_TIME",
    "first_header",
    "is_own_header",
    "origin_headers",
    "own_headers",
    "rfc3339",
    "with_headers",
]

HEADERS_TYPE: Final = "map<string,array<string>>"


def own_headers(headers: Column) -> Column:
    """Return the headers that the publisher of a message set."""

    def is_own(name: Column, _: Column) -> Column:
        lower = F.lower(name)
        return ~(lower.startswith(SERVER_PREFIX) | lower.startswith(OUR_PREFIX))

    return F.coalesce(F.map_filter(headers, is_own), F.expr(f"cast(map() as {HEADERS_TYPE})"))


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
