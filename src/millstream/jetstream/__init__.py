"""Streams, consumers and their API, seen through narrow ports: no socket and no event loop here."""
