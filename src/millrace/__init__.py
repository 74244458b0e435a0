"""Millrace: JetStream for Python and Spark."""

from millrace.base import build as _build

BUILD = _build.select()  # before any compiled module is imported

__version__ = "0.1.0"
