"""Check the stream before anything is written; an error says what to change.

The stream is the one of the option `stream`, of the option `subject`, or of the markers of `fenced`.  If only
rows have subjects, there may be no stream to check: then errors show in the acks.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from millstream.spark.errors import SparkError
from millstream.spark.options import SinkOptions
from millstream.spark.writing.columns import ColumnLayout
from millstream.tables.errors import OptionError, StreamMissing
from millstream.tables.streams import StreamAsker

logger: Final = logging.getLogger("millstream.spark")

_SECOND: Final = 1_000_000_000  # ns
_EXPECTED_OUTAGE_S: Final = 300.0  # of a streaming query: somebody must notice and restart it
_warned: Final[set[str]] = set()  # streams; Spark checks before each micro-batch, mostly in one process


@dataclass(frozen=True, slots=True)
class TargetStream:
    """The stream that is written to, as far as it is known."""

    stream: str | None = None  # None: depends on the rows
    takes_ttl: bool = False
    dead_letter_subject: str = ""


def check_target(
    api: StreamAsker, options: SinkOptions, layout: ColumnLayout, *, streaming: bool
) -> TargetStream:
    """Check the streams; raise SparkError or OptionError if writing cannot work."""
    dead_letter_subject = ""
    if options.dead_letter_stream is not None:
        dead = api(f"STREAM.INFO.{options.dead_letter_stream}")
        dead_letter_subject = literal_subject(dead["config"].get("subjects") or [])
        if not dead_letter_subject:
            raise SparkError(
                f"the dead letter stream {options.dead_letter_stream} has no subject to publish to"
            )
    name = _stream_of(api, options)
    if name is None:
        return TargetStream(dead_letter_subject=dead_letter_subject)
    config = api(f"STREAM.INFO.{name}")["config"]
    if config.get("no_ack"):
        raise SparkError(
            f"stream {name} acknowledges nothing (no_ack), so nothing written to it would be sure"
        )
    if config.get("sealed"):
        raise SparkError(f"stream {name} is sealed: it takes no messages")
    takes_ttl = bool(config.get("allow_msg_ttl"))
    if "ttl" in layout and not takes_ttl:
        raise SparkError(f"there is a column ttl, but stream {name} does not allow it (allow_msg_ttl)")
    if options.delivery_guarantee == "fenced":
        _check_fence(name, config, layout)
    elif options.delivery_guarantee == "dedupe":
        _check_window(name, config, options, streaming=streaming)
    return TargetStream(name, takes_ttl, dead_letter_subject)


def _stream_of(api: StreamAsker, options: SinkOptions) -> str | None:
    """Return the stream that stores the rows, or None; raise OptionError if the options contradict."""
    found: dict[str, str] = {}
    if options.stream is not None:
        found["the option stream"] = options.stream
    for what, subject in (
        (f"the subject {options.subject}", options.subject),
        (
            f"the fence subject {options.fence_subject}",
            options.fence_subject and f"{options.fence_subject}.*.*",
        ),
    ):
        if subject is None:
            continue
        names = api("STREAM.NAMES", {"subject": subject}).get("streams") or []
        if not names:
            raise StreamMissing(f"no stream takes {what}")
        found[what] = names[0]
    if len(set(found.values())) > 1:
        told = ", ".join(f"{what} means {name}" for what, name in found.items())
        raise OptionError(f"these have to be the same stream: {told}")
    return next(iter(found.values()), None)


def _check_fence(name: str, config: dict[str, Any], layout: ColumnLayout) -> None:
    if not config.get("allow_atomic"):
        raise SparkError(
            f"deliveryGuarantee=fenced needs a stream that allows atomic batches; set allow_atomic on {name}"
        )
    if config.get("retention", "limits") != "limits":
        raise SparkError(
            f"deliveryGuarantee=fenced keeps markers in the stream, but {name} removes messages by "
            f"{config['retention']}; use dedupe there"
        )
    if "msg_id" in layout:
        raise SparkError(
            "deliveryGuarantee=fenced needs no ids, and one repeated id would refuse a whole batch; "
            "drop the column msg_id, or use dedupe"
        )
    if "expected_last_subject_seq" in layout:
        raise SparkError("deliveryGuarantee=fenced can not be used with the column expected_last_subject_seq")


def _check_window(name: str, config: dict[str, Any], options: SinkOptions, *, streaming: bool) -> None:
    window_s = config.get("duplicate_window", 0) / _SECOND
    if window_s <= 0:
        raise SparkError(f"stream {name} remembers no ids (duplicate_window), so dedupe can not work there")
    outage_s = _EXPECTED_OUTAGE_S if streaming else options.publish_timeout
    if window_s < 2 * outage_s and name not in _warned:
        _warned.add(name)
        logger.warning(
            "stream %s remembers ids for %g s: what is written again after a longer outage is stored twice. "
            "Raise duplicate_window, or use deliveryGuarantee=fenced",
            name,
            window_s,
        )


def literal_subject(subjects: list[str]) -> str:
    """Return a literal subject that matches the first of these patterns."""
    if not subjects:
        return ""
    return ".".join("sink" if token in ("*", ">") else token for token in subjects[0].split("."))
