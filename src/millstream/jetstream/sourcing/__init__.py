"""Streams that take their messages from other streams: mirrors and sources."""
