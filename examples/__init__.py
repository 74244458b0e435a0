"""Worked examples; `orders` is what `make run` runs."""
