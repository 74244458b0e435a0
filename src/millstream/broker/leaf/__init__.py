"""Leaf links: accounts of this server joined with accounts of another one (docs/leaf.md)."""
