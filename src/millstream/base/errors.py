"""The root of every error that Millstream raises on purpose, and what JSON from outside may raise."""

from typing import Final

import msgspec


class MillstreamError(Exception):
    """Something a user can act on; its text is meant for people."""


# What `msgspec.json` raises for bytes that are no JSON of the wanted shape: its own errors, and two
# of Python's, for strings that are no UTF-8 and for brackets that go too deep.
UNREADABLE_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
