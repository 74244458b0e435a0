"""Streams of any NATS server as Arrow record batches: over Arrow from Millstream, over the wire elsewhere."""
