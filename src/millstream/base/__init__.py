"""Errors, the clock, ids and other basics that know nothing of NATS."""
