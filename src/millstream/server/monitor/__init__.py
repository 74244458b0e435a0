"""Monitoring over HTTP: nats-server's documents, and metrics for Prometheus."""
