"""The base class of all errors that Millstream raises on purpose, and the errors of untrusted JSON."""

from typing import Final

import msgspec


class MillstreamError(Exception):
    """An error that a user can act on; its text is meant for people."""


# The errors of `msgspec.json` for bytes that are not JSON of the wanted type: its own, and two of
# Python's, for
# strings that are not UTF-8 and for brackets nested too deeply.
UNREADABLE_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
