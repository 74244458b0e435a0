"""Millstream with other tools, one module for each: see docs/ecosystem.md."""
