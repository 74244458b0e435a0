"""`$JS.API.…`: from a request to its handler, and from its outcome to the answer.

The table of endpoints is the whole dispatch.  A subject under the prefix that no endpoint has gets no
answer at all, as in the reference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from millrace.jetstream.ports import Request
from millrace.jetstream.stream_api import StreamApi
from millrace.jsapi import headers as names
from millrace.jsapi import responses
from millrace.jsapi.codec import JsonError, encode
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.limits import API_LEVEL
from millrace.protocol import headers
from millrace.store.errors import StoreError

if TYPE_CHECKING:
    from millrace.jetstream.account import AccountJetStream

_log = logging.getLogger("millrace.jetstream")

Handler = Callable[[str, bytes], responses.Response]

_PREFIX: Final = b"$JS.API."
_REQUIRED_LEVEL: Final = names.REQUIRED_API_LEVEL.encode()
_CLUSTER_ONLY: Final = {
    "STREAM.LEADER.STEPDOWN.*": "stream_leader_stepdown",
    "STREAM.PEER.REMOVE.*": "stream_remove_peer",
    "STREAM.PEER.EVACUATE.*": "stream_remove_peer",
    "STREAM.CANCEL_MOVE.*": "stream_update",
    "CONSUMER.LEADER.STEPDOWN.*.*": "consumer_leader_stepdown",
    "CONSUMER.PEER.REMOVE.*.*": "consumer_remove_peer",
    "CONSUMER.PEER.EVACUATE.*.*": "consumer_remove_peer",
}


class Api:
    """The API of one account."""

    def __init__(self, account: AccountJetStream, server_name: str) -> None:
        self._account = account
        streams = StreamApi(account, server_name)
        self._endpoints: dict[str, tuple[Handler, type[responses.Response]]] = {
            "INFO": (self._account_info, responses.AccountInfoResponse),
            "STREAM.CREATE.*": (streams.create, responses.StreamCreateResponse),
            "STREAM.UPDATE.*": (streams.update, responses.StreamUpdateResponse),
            "STREAM.NAMES": (streams.names, responses.StreamNamesResponse),
            "STREAM.LIST": (streams.page, responses.StreamListResponse),
            "STREAM.INFO.*": (streams.info, responses.StreamInfoResponse),
            "STREAM.DELETE.*": (streams.delete, responses.StreamDeleteResponse),
            "STREAM.PURGE.*": (streams.purge, responses.StreamPurgeResponse),
            "STREAM.MSG.GET.*": (streams.get, responses.MsgGetResponse),
            "STREAM.MSG.DELETE.*": (streams.delete_message, responses.MsgDeleteResponse),
        }

    def start(self) -> Any:
        """Answer requests; the handle is for ``World.release``."""
        return self._account.world.serve(_PREFIX + b">", self.answer)

    def answer(self, request: Request) -> None:
        tokens = request.subject[len(_PREFIX) :].decode(errors="replace").split(".")
        found = self._find(tokens)
        if found is None:
            return
        handler, kind, name = found
        response = self._call(handler, kind, name, request)
        if request.reply:
            self._account.world.publish(request.reply, encode(response))

    def _find(self, tokens: list[str]) -> tuple[Handler, type[responses.Response], str] | None:
        plain = ".".join(tokens)
        if plain in self._endpoints:
            return *self._endpoints[plain], ""
        pattern = ".".join((*tokens[:-1], "*"))
        if pattern in self._endpoints:
            return *self._endpoints[pattern], tokens[-1]
        return None

    def _call(
        self, handler: Handler, kind: type[responses.Response], name: str, request: Request
    ) -> responses.Response:
        try:
            _check_level(request.headers)
            response = handler(name, request.payload)
        except ApiError as error:
            self._account.api_errors += 1
            response = kind(error=error.body)
        except JsonError as error:
            self._account.api_errors += 1
            response = kind(error=ApiError(Err.INVALID_JSON, err=str(error)).body)
        except StoreError as error:
            self._account.api_errors += 1
            _log.error("%s", error)
            response = kind(error=ApiError(Err.STREAM_STORE_FAILED, err=str(error)).body)
        self._account.api_total += 1
        return response

    def _account_info(self, _: str, __: bytes) -> responses.AccountInfoResponse:
        return responses.AccountInfoResponse(info=self._account.info())


def _check_level(block: bytes) -> None:
    wanted = headers.find(block, _REQUIRED_LEVEL) if block else None
    if wanted is not None and (not wanted.isdigit() or int(wanted) > API_LEVEL):
        raise ApiError(Err.REQUIRED_API_LEVEL)
