"""Many operations beside the measured ones, each at two sizes; see ``__main__``."""
