"""Streams as archives: what a snapshot is made of, and what a restore reads (docs/formats/snapshot.md)."""
