"""Consumers: views of a stream that remember what was delivered, and what of it was acknowledged."""
