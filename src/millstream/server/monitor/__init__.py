"""Monitoring over HTTP: documents as nats-server gives them, and metrics for Prometheus."""
