"""The NATS client protocol as bytes: no sockets, no event loop, no accounts."""
