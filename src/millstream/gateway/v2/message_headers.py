"""Headers of messages: in HTTP's headers, in JSON, and in the block that NATS stores.

In HTTP, `Nats-…` headers are those of the message, and every other one has a prefix:
`Millstream-Header-Trace: abc` is the message's `Trace`.  HTTP does not preserve the case of names, but NATS
does: JetStream's own names get their spelling back, others are capitalised word by word.  JSON keeps names
unchanged.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from millstream.gateway.errors import BadRequest
from millstream.gateway.v2.names import check_header_name, check_header_value
from millstream.jsapi import headers as jetstream
from millstream.protocol.headers import Pairs, text_of

JsonHeaders = dict[str, str | list[str]]

FREE_PREFIX: Final = "millstream-header-"
_OWN_PREFIX: Final = "nats-"
_RAW_PREFIXES: Final = (_OWN_PREFIX.encode(), FREE_PREFIX.encode())
_SPELLING: Final = {
    value.lower(): value
    for name, value in vars(jetstream).items()
    if name.isupper() and isinstance(value, str) and value.startswith("Nats-")
}
_BATCH: Final = jetstream.BATCH_PREFIX.lower()


def from_http(raw: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Return the message headers among the headers of a request, whose names are in lower case."""
    found: Pairs = []
    for raw_name, raw_value in raw:
        if not raw_name.startswith(_RAW_PREFIXES):  # most are not, so this check comes first
            continue
        name = raw_name.decode("latin-1")
        if name.startswith(_OWN_PREFIX):
            name = _SPELLING.get(name) or _capitalised(name)
        else:
            name = _capitalised(name.removeprefix(FREE_PREFIX))
        found.append((check_header_name(name), check_header_value(text_of(raw_value).strip(), name)))
    return found


def to_http(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Return the HTTP headers for the headers of a message."""
    return [
        (name if name.lower().startswith(_OWN_PREFIX) else f"Millstream-Header-{name}", value)
        for name, value in pairs
        if name.isascii() and name.isprintable() and " " not in name
    ]


def from_json(headers: Mapping[str, str | list[str]]) -> Pairs:
    """Return the headers of a message in JSON."""
    found: Pairs = []
    for name, value in headers.items():
        check_header_name(name)
        if isinstance(value, str):
            found.append((name, check_header_value(value, name)))
        else:
            found += [(name, check_header_value(each, name)) for each in value]
    return found


def to_json(pairs: Iterable[tuple[str, str]]) -> JsonHeaders:
    """Return headers for JSON; a repeated header has a list."""
    found: JsonHeaders = {}
    for name, value in pairs:
        present = found.get(name)
        if present is None:
            found[name] = value
        elif isinstance(present, list):
            present.append(value)
        else:
            found[name] = [present, value]
    return found


def refuse_batches(pairs: Pairs) -> None:
    """Refuse headers of atomic batches, which need one connection for all their messages."""
    for name, _ in pairs:
        if name.lower().startswith(_BATCH):
            raise BadRequest(f"{name} is not supported: a batch cannot span requests")


def _capitalised(name: str) -> str:
    return "-".join(word.capitalize() for word in name.split("-"))
