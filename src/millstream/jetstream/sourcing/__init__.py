"""Mirrors and sources: streams that copy their messages from other streams."""
