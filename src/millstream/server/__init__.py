"""The composition root: builds the parts, connects them, runs and stops them."""
