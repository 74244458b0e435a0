"""The snapshot format of a stream, ours and nats-server's: bytes to entries and back; no log, no server."""
