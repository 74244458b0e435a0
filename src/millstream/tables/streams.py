"""The state of a stream that a query needs, and the requests for it.

Requests for single messages go to `STREAM.MSG.GET`.  Only the leader answers those, so a response is reliable
where a replica's is not, and the server publishes no audit advisory for them: a query over a stream of
advisories does not feed itself.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from millstream.golang.time import format_time
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError

_ADVISORIES: Final = "$JS.EVENT."


class StreamAsker(Protocol):
    """Asks the JetStream API; a refusal is a `LinkApiError`."""

    def __call__(self, name: str, request: dict[str, Any] | None = None) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """The state of a stream at one moment."""

    name: str
    id: str  # its creation time
    first: int  # sequence of the first message; 1 if there never was one
    after_last: int  # the sequence that the next message gets
    messages: int
    size: int  # bytes
    retention: str = "limits"
    subjects: tuple[str, ...] = ()
    allow_direct: bool = False
    consumers: int = 0

    @property
    def average_bytes(self) -> float:
        return self.size / self.messages if self.messages else 0.0

    @property
    def is_dense(self) -> bool:
        """Return True if no sequence between the first and the last message is missing."""
        return self.messages == self.after_last - self.first

    @property
    def has_advisories(self) -> bool:
        """Return True if API requests about the stream may add messages to it."""
        return any(subject.startswith(_ADVISORIES) or subject in (">", "$JS.>") for subject in self.subjects)


def facts_of(info: dict[str, Any]) -> StreamFacts:
    """Convert a STREAM.INFO response."""
    config, state = info["config"], info["state"]
    last = int(state["last_seq"])
    return StreamFacts(
        name=config["name"],
        id=str(info["created"]),
        first=max(1, int(state["first_seq"])),
        after_last=last + 1,
        messages=int(state["messages"]),
        size=int(state["bytes"]),
        retention=str(config.get("retention", "limits")),
        subjects=tuple(config.get("subjects") or ()),
        allow_direct=bool(config.get("allow_direct") or config.get("mirror_direct")),
        consumers=int(state.get("consumer_count", 0)),
    )


def stream_facts(api: StreamAsker, name: str) -> StreamFacts:
    return facts_of(api(f"STREAM.INFO.{name}"))


def matching_names(api: StreamAsker, pattern: str) -> list[str]:
    """Return the streams whose whole name matches, sorted."""
    wanted = re.compile(pattern)
    return sorted(name for name in _all_names(api) if wanted.fullmatch(name))


def _all_names(api: StreamAsker) -> Iterable[str]:
    offset = 0
    while True:
        page = api("STREAM.NAMES", {"offset": offset})
        names = page.get("streams") or []
        yield from names
        offset += len(names)
        if not names or offset >= int(page.get("total", 0)):
            return


def next_message(api: StreamAsker, stream: str, seq: int, filters: tuple[str, ...]) -> int | None:
    """Return the sequence of the first message from `seq` on that passes the filters, or None."""
    return _lowest(api, stream, {"seq": seq}, filters)


def message_at(api: StreamAsker, stream: str, time_ns: int) -> int | None:
    """Return the sequence of the first message at or after a time, or None."""
    return _lowest(api, stream, {"start_time": format_time(max(time_ns, 0))}, ())


def last_message(api: StreamAsker, stream: str) -> int | None:
    """Return the sequence of the last message, or None."""
    return _sequence(api, stream, {"last_by_subj": ">", "no_hdr": True})


def _lowest(api: StreamAsker, stream: str, request: dict[str, Any], filters: tuple[str, ...]) -> int | None:
    found = [_sequence(api, stream, request | {"next_by_subj": subject}) for subject in filters or (">",)]
    return min((seq for seq in found if seq is not None), default=None)


def _sequence(api: StreamAsker, stream: str, request: dict[str, Any]) -> int | None:
    try:
        answer = api(f"STREAM.MSG.GET.{stream}", request)
    except LinkApiError as error:
        if error.err is Err.NO_MESSAGE_FOUND:
            return None
        raise
    return int(answer["message"]["seq"])
