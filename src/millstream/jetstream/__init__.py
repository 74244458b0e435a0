"""Streams, consumers and their API behind narrow ports: no socket and no event loop here."""
