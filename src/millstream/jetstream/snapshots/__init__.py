"""Snapshots and restores of streams, and the archives that they are made of (docs/formats/snapshot.md)."""
