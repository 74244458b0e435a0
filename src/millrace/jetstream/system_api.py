"""What the system account hears on `$JS.API.…`: that it has no JetStream, unless it has an account purged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millrace.jetstream.api import Listening, find_endpoint
from millrace.jsapi import responses
from millrace.jsapi.codec import encode
from millrace.jsapi.errors import ApiError, Err

if TYPE_CHECKING:
    from millrace.jetstream.ports import Request, World

_PURGE: Final = ["$JS", "API", "ACCOUNT", "PURGE"]


class SystemApi:
    """Of one server."""

    def __init__(self, world: World, purge: Callable[[str], None]) -> None:
        self._world = world
        self._purge = purge  # deletes all streams of the account of this name, if there is one
        self._listening = Listening(world, self.answer)

    def start(self) -> None:
        self._listening.start()

    def stop(self) -> None:
        self._listening.stop()

    def answer(self, subject: bytes, request: Request) -> None:
        response = self._response(subject)
        if response is not None and request.reply:
            self._world.publish(request.reply, encode(response))

    def _response(self, subject: bytes) -> responses.Response | None:
        tokens = subject.decode(errors="replace").split(".")
        if tokens[:-1] == _PURGE:
            self._purge(tokens[-1])
            return responses.AccountPurgeResponse(initiated=True)
        endpoint, _ = find_endpoint(subject)
        if not endpoint:
            return None
        kind = responses.AccountInfoResponse if endpoint == "INFO" else responses.SystemResponse
        return kind(error=ApiError(Err.NOT_ENABLED_FOR_ACCOUNT).body)
