"""Options of the Arrow endpoint."""

import msgspec

LOOPBACK = "127.0.0.1"


class ArrowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The Arrow endpoint, which runs beside JetStream unless it is switched off."""

    enabled: bool = True
    host: str = LOOPBACK
    port: int = -1  # -1: pick a free port
    advertise: str = ""  # `host` or `host:port` announced to clients; empty: detected
    max_clients: int = 32  # served at a time; others wait
