"""Read the `millstream` block: settings that nats-server does not have.

    millstream {
        arrow {
            listen: "0.0.0.0:8223"       # or host and port; without a port, a free one on loopback
            advertise: "streams.example.com:8223"
            max_clients: 32
        }
        erase_within: "2m"               # how long removed messages may stay on disk, at least 1s
        memory_budget: 64MB              # for tables of the store, which it can reload from disk
        otel {
            endpoint: "http://127.0.0.1:4318"
            headers { "api-key": "secret" }
        }
    }

`arrow: false` switches the endpoint off.  `otel: true` sends to where the variables `OTEL_…` say.
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
    secret,
    string,
)
from millstream.config.settings import split_host_port
from millstream.config.tree import Block, TreeEntry
from millstream.otel.options import MISSING, OtelOptions, is_installed


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


def _read_otel(entry: TreeEntry, notes: Notes) -> OtelOptions | None:
    values: dict[str, Any] = {}
    if isinstance(entry.value.data, Block):
        values = dict(read_block(entry.value.data, _OTEL, notes, whole=True))
    elif not boolean(entry, notes):
        return None
    try:
        options = OtelOptions(**values)
    except ValueError as error:
        raise refused(entry, str(error).removeprefix("otel: ")) from None
    if not is_installed():
        raise refused(entry, MISSING)
    return options


def _read_headers(entry: TreeEntry, notes: Notes) -> dict[str, str]:
    return {item.key: secret(item, notes) for item in block(entry).values()}


def _read_share(entry: TreeEntry, notes: Notes) -> float:
    """Read a share: a number from 0 to 1, or a percentage such as `"10%"`."""
    data = entry.value.data
    if isinstance(data, str) and data.endswith("%"):
        try:
            return float(data[:-1]) / 100
        except ValueError:
            pass
    if not isinstance(data, int | float) or isinstance(data, bool):
        raise refused(entry, 'expected a share such as 0.1 or "10%"')
    return float(data)


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

_OTEL = (
    field("endpoint url", string, "endpoint"),
    field("headers", _read_headers, "headers"),
    field("service_name", string, "service_name"),
    field("traces", boolean, "traces"),
    field("metrics", boolean, "metrics"),
    field("sampling", _read_share, "sampling"),
    field("interval", duration_text, "interval_s"),
    field("timeout", duration_text, "timeout_s"),
    field("queue", integer, "queue"),
)

_MILLSTREAM = (
    field("arrow", _read_arrow),
    field("erase_within", _read_erase_within, "jetstream_erase_within_s"),
    field("memory_budget", _read_memory_budget, "jetstream_memory_budget"),
    field("otel", _read_otel, "otel"),
)
