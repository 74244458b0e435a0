"""A range of a stream, how to read it, and what its rows are checked against."""

from dataclasses import dataclass
from typing import Final

PULL: Final = "pull"
DIRECT: Final = "direct"
GET: Final = "get"  # one message at a time
ARROW: Final = "arrow"


@dataclass(frozen=True)
class StreamRange:
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


@dataclass(frozen=True)
class Fetching:
    """Settings for reading a range; they can be pickled."""

    transport: str = "auto"
    arrow_hosts: tuple[str, ...] = ()
    include_headers: bool = True
    batch: int = 10_000
    max_bytes: int = 8 * 1024 * 1024
    timeout: float = 120.0
    retries: int = 3
    fail_on_data_loss: bool = True
