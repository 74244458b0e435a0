"""Numbered records on disk or in memory: append, read, remove, recover.  Knows nothing of streams."""
