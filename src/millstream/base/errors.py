"""The root of every error that Millstream raises on purpose."""


class MillstreamError(Exception):
    """Something a user can act on; its text is meant for people."""
