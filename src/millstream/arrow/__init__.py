"""Ranges of a stream as Arrow record batches, built from its log."""
