"""Archives of streams: written by snapshots, read by restores (docs/formats/snapshot.md)."""
