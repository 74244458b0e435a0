"""Helpers for tests, ours and our users': start servers, fake transports, break connections."""
