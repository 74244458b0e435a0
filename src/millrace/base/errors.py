"""The root of every error that Millrace raises on purpose."""


class MillraceError(Exception):
    """Something a user can act on; its text is meant for people."""
