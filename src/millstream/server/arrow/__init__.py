"""Ranges of streams over HTTP, as Arrow IPC streams (docs/formats/arrow.md)."""

from millstream.server.arrow.endpoint import ArrowEndpoint

__all__ = ["ArrowEndpoint"]
