"""Why a request is not answered with a range."""

from http import HTTPStatus

from millstream.base.errors import MillstreamError


class ArrowProblem(MillstreamError):
    """An answer with a status and a text for people."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Gone(MillstreamError):
    """The reading cannot go on: its stream was deleted, or the server stops."""
