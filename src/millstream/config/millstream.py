"""Read the `millstream` block: settings that nats-server does not have.

    millstream {
        arrow {
            listen: "0.0.0.0:8223"       # or host and port; without a port, a free one on loopback
            advertise: "streams.example.com:8223"
            max_clients: 32
        }
        erase_within: "2m"               # how long removed messages may stay on disk, at least 1s
        memory_budget: 64MB              # for tables of the store, which it can reload from disk
    }

`arrow: false` switches the endpoint off.
"""

from typing import Any

from millstream.base.budget import LEAST_BUDGET
from millstream.config.errors import Notes
from millstream.config.fields import (
    between,
    block,
    boolean,
    duration_text,
    field,
    integer,
    listen,
    port,
    read_block,
    refused,
    string,
)
from millstream.config.settings import split_host_port
from millstream.config.tree import Block, TreeEntry


def read_millstream(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    return dict(read_block(block(entry), _MILLSTREAM, notes))


def _read_arrow(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    if not isinstance(entry.value.data, Block):
        return {"arrow_enabled": boolean(entry, notes)}
    return {f"arrow_{name}": value for name, value in read_block(entry.value.data, _ARROW, notes).items()}


def _read_erase_within(entry: TreeEntry, notes: Notes) -> float:
    seconds = duration_text(entry, notes)
    if seconds < 1:
        raise refused(entry, "must be at least 1s")
    return seconds


def _read_memory_budget(entry: TreeEntry, notes: Notes) -> int:
    size = integer(entry, notes)
    if size < LEAST_BUDGET:
        raise refused(entry, "must be at least 8MB")
    return size


def _read_advertise(entry: TreeEntry, notes: Notes) -> str:
    text = string(entry, notes)
    if ":" in text:
        try:
            split_host_port(text)
        except ValueError as error:
            raise refused(entry, str(error)) from error
    return text


_ARROW = (
    field("enabled", boolean, "enabled"),
    field("listen", listen()),
    field("host net", string, "host"),
    field("port", port, "port"),
    field("advertise", _read_advertise, "advertise"),
    field("max_clients", between(1, 1024), "max_clients"),
)

_MILLSTREAM = (
    field("arrow", _read_arrow),
    field("erase_within", _read_erase_within, "jetstream_erase_within_s"),
    field("memory_budget", _read_memory_budget, "jetstream_memory_budget"),
)
