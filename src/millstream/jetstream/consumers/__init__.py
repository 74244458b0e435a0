"""Consumers: views of a stream that record what was delivered and acknowledged."""
