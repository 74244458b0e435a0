"""Choose how a stream is read: by consumer, by direct get, message by message, or as Arrow from Millstream.

A consumer has exact flow control and filters on the server.  But work queues do not allow an extra one,
interest streams would keep messages for it, and streams of advisories would grow by it.  A direct get
changes nothing and needs `allow_direct`.
"""

import logging
from typing import Any, Final

from millstream.tables.errors import OptionError
from millstream.tables.stream_range import ARROW, DIRECT, GET, PULL
from millstream.tables.streams import StreamFacts

logger: Final = logging.getLogger("millstream.tables")


def way_to_read(facts: StreamFacts, wanted: str, *, arrow_offered: bool) -> dict[str, Any]:
    """Return the fields of a `StreamRange` that follow from the stream and the wanted transport."""
    transport, fallback = choose(facts, wanted, arrow_offered=arrow_offered)
    return {
        "transport": transport,
        "fallback": fallback,
        "id": facts.id,
        "dense": facts.is_dense,
        "advisories": facts.has_advisories,
        "interest": facts.retention == "interest",
    }


def choose(facts: StreamFacts, wanted: str, *, arrow_offered: bool) -> tuple[str, str]:
    """Return the transport for a stream, and the one to use if Arrow turns out to be unusable.

    Raises `OptionError` if the transport that the user wants does not work for the stream.
    """
    match wanted:
        case "arrow":
            if not arrow_offered:
                raise OptionError(f"transport=arrow: the server of stream {facts.name} does not offer it")
            return ARROW, ""
        case "pull":
            if facts.retention == "workqueue":
                raise OptionError(
                    f"transport=pull: {facts.name} is a work queue, whose messages only its own consumers get"
                )
            return PULL, ""
        case "direct":
            if not facts.allow_direct:
                raise OptionError(f"transport=direct: stream {facts.name} does not have allow_direct")
            return DIRECT, ""
    wire = _over_the_wire(facts)
    if arrow_offered:
        return ARROW, wire
    if wire == GET:
        logger.warning(
            "stream %s is a work queue without allow_direct: its messages are read one by one, which is slow",
            facts.name,
        )
    elif wire == PULL and facts.has_advisories:
        logger.warning(
            "stream %s has advisories and not allow_direct: reading adds to it, so it is never idle",
            facts.name,
        )
    return wire, ""


def _over_the_wire(facts: StreamFacts) -> str:
    queue = facts.retention == "workqueue"
    if not queue and not facts.has_advisories and facts.retention != "interest":
        return PULL
    if facts.allow_direct:
        return DIRECT
    return GET if queue else PULL
