"""What can be configured about the Arrow endpoint."""

import msgspec

LOOPBACK = "127.0.0.1"


class ArrowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """It runs beside JetStream, unless it is switched off."""

    enabled: bool = True
    host: str = LOOPBACK
    port: int = -1  # -1: pick one
    advertise: str = ""  # `host` or `host:port` that clients are told; empty: found out
    max_clients: int = 32  # served at a time; others wait
