"""The NATS client protocol, bytes only: no sockets, no event loop, no accounts."""
