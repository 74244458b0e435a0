"""Monitoring over HTTP: documents as nats-server gives them, and metrics for Prometheus."""

from millrace.server.monitor.endpoint import Monitor

__all__ = ["Monitor"]
