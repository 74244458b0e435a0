"""The header of the PROXY protocol, versions 1 and 2: a proxy says with it whose connection it passes on.

    PROXY TCP4 192.0.2.1 198.51.100.1 56324 4222\\r\\n             version 1, at most 107 bytes

    0d0a0d0a000d0a515549540a | ver/cmd | family | length u16      version 2, big-endian
    source address | destination address | source port | destination port | …

A header stands before everything else, TLS included, and it is optional: a connection without one is its
peer's own.  Health checks of proxies (`UNKNOWN`, LOCAL) name nobody.  Error texts are nats-server's.
"""

import ipaddress
from typing import Final

import msgspec

from millstream.base.errors import MillstreamError

_PREFIX: Final = b"PROXY "
_LONGEST_LINE: Final = 107  # with its end
_SIGNATURE: Final = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"
_FIXED: Final = 16  # bytes of version 2 before the addresses
_DETECTED: Final = 6  # first bytes that tell whether there is a header
_LOCAL, _PROXY = 0, 1
_STREAM: Final = 1
_INET, _INET6 = 0x10, 0x20
_PORTS: Final = 4  # bytes
_HIGHEST_PORT: Final = 65535


class BadProxyHeader(MillstreamError):
    """A header began and is not one."""


class ProxyHeader(msgspec.Struct, frozen=True):
    """The size of a header, and whom it names."""

    size: int  # bytes, 0: there is no header
    host: str = ""  # empty: the peer itself
    port: int = 0


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """Return the header; None while it is incomplete.  Raises BadProxyHeader."""
    start = data[:_DETECTED]
    if _PREFIX.startswith(start) and data[: len(_PREFIX)] == _PREFIX:
        return _line(data)
    if start == _SIGNATURE[:_DETECTED]:
        return _binary(data)
    if len(data) < _DETECTED and (_PREFIX.startswith(start) or _SIGNATURE.startswith(start)):
        return None
    return ProxyHeader(0)


def _line(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LONGEST_LINE)
    if end < 0:
        if len(data) >= _LONGEST_LINE:
            raise BadProxyHeader("invalid PROXY protocol header: v1 line too long")
        return None
    parts = data[len(_PREFIX) : end].decode("latin-1").split()
    if parts[:1] == ["UNKNOWN"]:
        return ProxyHeader(end + 2)
    if len(parts) != 5:
        raise BadProxyHeader("invalid PROXY protocol header: invalid v1 format")
    protocol, source, destination, source_port, destination_port = parts
    for text in (source, destination):
        _check_address(protocol, text)
    for what, text in (("source", source_port), ("dest", destination_port)):
        if not (text.isascii() and text.isdecimal() and int(text) <= _HIGHEST_PORT):
            raise BadProxyHeader(f'invalid {what} port: "{text}"')
    return ProxyHeader(end + 2, _shown(source), int(source_port))


def _check_address(protocol: str, text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise BadProxyHeader("invalid PROXY protocol header: invalid address") from None
    if "%" in text:  # a zone: it means nothing here, and Python takes any text for one
        raise BadProxyHeader("invalid PROXY protocol header: invalid address")
    if protocol not in ("TCP4", "TCP6"):
        raise BadProxyHeader(f"invalid PROXY protocol header: invalid protocol {protocol}")
    if protocol == "TCP4" and ":" in text:
        raise BadProxyHeader("invalid PROXY protocol header: TCP4 with IPv6 address")
    if protocol == "TCP6" and ":" not in text:
        raise BadProxyHeader("invalid PROXY protocol header: TCP6 with IPv4 address")


def _binary(data: bytes) -> ProxyHeader | None:
    if data[: len(_SIGNATURE)] != _SIGNATURE[: len(data)]:
        raise BadProxyHeader("invalid PROXY protocol header: invalid signature")
    if len(data) < _FIXED:
        return None
    version, command = data[12] & 0xF0, data[12] & 0x0F
    family, protocol = data[13] & 0xF0, data[13] & 0x0F
    length = int.from_bytes(data[14:_FIXED])
    if version != 0x20:
        raise BadProxyHeader(f"invalid PROXY protocol header: invalid version 0x{version:02x}")
    if command not in (_LOCAL, _PROXY):
        raise BadProxyHeader(f"unknown PROXY protocol command: 0x{command:02x}")
    if command == _PROXY and protocol != _STREAM:
        raise BadProxyHeader("unsupported PROXY protocol feature: only STREAM protocol supported")
    size = {_INET: 4, _INET6: 16}.get(family, 0)
    if command == _PROXY and not size and family:
        raise BadProxyHeader(f"unsupported PROXY protocol feature: unsupported address family 0x{family:02x}")
    if command == _PROXY and size and length < 2 * size + _PORTS:
        raise BadProxyHeader(f"IPv{4 if size == 4 else 6} address data too short: {length} bytes")
    if len(data) < _FIXED + length:
        return None
    if command == _LOCAL or not size:
        return ProxyHeader(_FIXED + length)
    ports = _FIXED + 2 * size
    host = str(ipaddress.ip_address(data[_FIXED : _FIXED + size]))
    return ProxyHeader(_FIXED + length, _shown(host), int.from_bytes(data[ports : ports + 2]))


def _shown(host: str) -> str:
    """Return an address as logs and monitoring show it; one of IPv4 within IPv6 as that of IPv4."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
