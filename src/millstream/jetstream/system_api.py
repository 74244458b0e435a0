"""The system account's `$JS.API.…`: it has no JetStream, but can purge an account."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.jetstream.api import Listening
from millstream.jetstream.api_requests import beyond_ours
from millstream.jsapi import responses
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import ApiError, Err

if TYPE_CHECKING:
    from millstream.jetstream.ports import ClientRequest, Messaging

_INFO: Final = "$JS.API.INFO"
_PURGE: Final = "$JS.API.ACCOUNT.PURGE."
_OF_ACCOUNTS: Final = "$JS.API.ACCOUNT."
# A cluster does something about them; without one they are not even refused.
_SILENT: Final = frozenset(
    {
        "$JS.API.META.LEADER.STEPDOWN",
        "$JS.API.META.RESCUE",
        "$JS.API.SERVER.REMOVE",
        "$JS.API.SERVER.EVACUATE",
    }
)


class SystemApi:
    """The system API of one server."""

    def __init__(self, world: Messaging, purge: Callable[[str], None]) -> None:
        self._world = world
        self._purge = purge  # deletes all streams of the account of this name, if there is one
        self._listening = Listening(world, self.answer, everything=True)

    def start(self) -> None:
        self._listening.start()

    def stop(self) -> None:
        self._listening.stop()

    def answer(self, subject: bytes, request: ClientRequest) -> None:
        response = self._response(subject.decode(errors="replace"), request)
        if response is not None and request.reply:
            request.answer(encode(response))

    def _response(self, subject: str, request: ClientRequest) -> responses.Response | None:
        refusal = ApiError(Err.NOT_ENABLED_FOR_ACCOUNT).body
        if subject in _SILENT:
            return None
        if subject.startswith(_OF_ACCOUNTS):
            name = subject.removeprefix(_PURGE)
            if name == subject or "." in name or beyond_ours(request.headers):
                return None
            self._purge(name)
            return responses.AccountPurgeResponse(initiated=True)
        if subject == _INFO:
            return None if beyond_ours(request.headers) else responses.AccountInfoResponse(error=refusal)
        return responses.SystemResponse(error=refusal)
