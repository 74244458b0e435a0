"""Monitoring over HTTP: documents as nats-server gives them, and metrics for Prometheus."""

from millstream.server.monitor.endpoint import Monitor

__all__ = ["Monitor"]
