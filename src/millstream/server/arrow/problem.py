"""Errors that are sent in place of a range."""

from http import HTTPStatus

from millstream.base.errors import MillstreamError


class ArrowProblem(MillstreamError):
    """Raised to answer with a status and a text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Gone(MillstreamError):
    """Raised when a reading cannot continue: its stream was deleted, or the server stops."""
