"""`$JS.API.…`: dispatch a request to its handler, and turn its outcome into the response.

The table of endpoints is the whole dispatch.  As in nats-server, a subject under one of the prefixes without
an endpoint gets no response; pull requests and direct gets are not in the table, because there a missing
subscriber is the answer.

A request that changes stored data is answered when the change is durable, and one that reads waits for what
was published before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base import guard
from millstream.base.complaints import Complaints
from millstream.base.lanes import Lane, Unwanted
from millstream.jetstream.api_requests import beyond_ours
from millstream.jetstream.long_answers import Encoded, Steps
from millstream.jetstream.ports import ClientRequest
from millstream.jetstream.read.lookup import Durable, Later, PendingCommit
from millstream.jsapi import responses
from millstream.jsapi.codec import JsonError, encode
from millstream.jsapi.errors import INTERNAL_ERROR, ApiError, Err
from millstream.store.errors import StoreError, client_text
from millstream.subjects.overlap import TooManySteps

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.advisories import Advisories
    from millstream.jetstream.consumers import api as consumers_api
    from millstream.jetstream.ports import Messaging
    from millstream.jetstream.snapshots.api import ArchiveApi
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

# Takes the last token of the subject and the body.
Handler = Callable[[str, bytes], responses.Response | Later | Steps]
Kind = type[responses.Response]
Answer = responses.Response | Encoded | Later | Steps | Durable | None

_LONG: Final = 64 * 1024  # bytes of an answer that is audited in a turn of its own
_SECOND: Final = 1_000_000_000  # ns
_PREFIX: Final = b"$JS.API."
_OF_ARCHIVES: Final = ("STREAM.SNAPSHOT.*", "STREAM.RESTORE.*")
# Streams and consumers listen for these themselves, if there are any that want to.
_NOT_SERVED: Final = (b"$JS.API.DIRECT.GET", b"$JS.API.CONSUMER.MSG.NEXT")
_CLUSTER_ONLY: Final[dict[str, Kind]] = {
    "STREAM.LEADER.STEPDOWN.*": responses.StreamLeaderStepdownResponse,
    "STREAM.PEER.REMOVE.*": responses.StreamRemovePeerResponse,
    "STREAM.PEER.EVACUATE.*": responses.StreamEvacuatePeerResponse,
    "STREAM.CANCEL_MOVE.*": responses.StreamCancelMoveResponse,
    "CONSUMER.LEADER.STEPDOWN.*.*": responses.ConsumerLeaderStepdownResponse,
    "CONSUMER.PEER.REMOVE.*.*": responses.ConsumerRemovePeerResponse,
    "CONSUMER.PEER.EVACUATE.*.*": responses.ConsumerEvacuatePeerResponse,
}
# What each endpoint answers with, in accounts that have JetStream and in those that have not.
_ANSWERS: Final[dict[str, Kind]] = {
    "INFO": responses.AccountInfoResponse,
    "STREAM.CREATE.*": responses.StreamCreateResponse,
    "STREAM.UPDATE.*": responses.StreamUpdateResponse,
    "STREAM.NAMES": responses.StreamNamesResponse,
    "STREAM.LIST": responses.StreamListResponse,
    "STREAM.INFO.*": responses.StreamInfoResponse,
    "STREAM.DELETE.*": responses.StreamDeleteResponse,
    "STREAM.PURGE.*": responses.StreamPurgeResponse,
    "STREAM.MSG.GET.*": responses.MsgGetResponse,
    "STREAM.MSG.DELETE.*": responses.MsgDeleteResponse,
    "STREAM.SNAPSHOT.*": responses.StreamSnapshotResponse,
    "STREAM.RESTORE.*": responses.StreamRestoreResponse,
    "CONSUMER.CREATE.*": responses.ConsumerCreateResponse,
    "CONSUMER.CREATE.*.>": responses.ConsumerCreateResponse,
    "CONSUMER.DURABLE.CREATE.*.*": responses.ConsumerCreateResponse,
    "CONSUMER.NAMES.*": responses.ConsumerNamesResponse,
    "CONSUMER.LIST.*": responses.ConsumerListResponse,
    "CONSUMER.INFO.*.*": responses.ConsumerInfoResponse,
    "CONSUMER.DELETE.*.*": responses.ConsumerDeleteResponse,
    "CONSUMER.PAUSE.*.*": responses.ConsumerPauseResponse,
    "CONSUMER.RESET.*.*": responses.ConsumerResetResponse,
    "CONSUMER.UNPIN.*.*": responses.ConsumerUnpinResponse,
}
_READING: Final = frozenset(
    {
        "STREAM.INFO.*",
        "STREAM.MSG.DELETE.*",
        *(endpoint for endpoint in _ANSWERS if endpoint.startswith("CONSUMER.")),
    }
)
# nats-server does not count it as an error that there was nothing to delete.
_NOT_COUNTED: Final = frozenset({Err.SEQUENCE_NOT_FOUND, Err.STREAM_MESSAGE_DELETE_FAILED})
_RESET: Final = "CONSUMER.RESET.*.*"
_INFOS: Final = frozenset({"STREAM.INFO.*", "CONSUMER.INFO.*.*"})
_CREATING_CONSUMERS: Final = frozenset(
    {"CONSUMER.CREATE.*", "CONSUMER.CREATE.*.>", "CONSUMER.DURABLE.CREATE.*.*"}
)
_CHANGING: Final = frozenset({"STREAM.PURGE.*", "STREAM.MSG.DELETE.*"})
_ALWAYS_WANTED: Final = (
    _CHANGING | _CREATING_CONSUMERS | {"STREAM.CREATE.*", "STREAM.UPDATE.*", "STREAM.DELETE.*"}
)


class _Call(msgspec.Struct):
    """One request in progress."""

    endpoint: str
    kind: Kind
    name: str  # what the subject has in place of the wildcards
    subject: bytes
    request: ClientRequest


class Waiting(msgspec.Struct):
    """Requests that wait for a commit."""

    limit: int
    count: int = 0


class AccountApi:
    """The API of one account."""

    def __init__(
        self,
        account: AccountJetStream,
        server_name: str,
        server_version: str,
        *,
        strict: bool = True,
        request_queue_limit: int = 10_000,
        info_queue_limit: int = 10_000,
    ) -> None:
        self._account = account
        self._requests = Waiting(request_queue_limit)
        self._infos = Waiting(info_queue_limit)
        self._full = Complaints(_log)
        self._long = Lane(account.world.in_slices, self._seconds, width=1, most_waiting=request_queue_limit)
        self._listening = Listening(account.world, self.answer)
        self._server_name = server_name
        self._server_version = server_version
        self._strict = strict
        self._archives: ArchiveApi | None = None

    # The handlers are imported with the first request: a server starts without them.

    @cached_property
    def _of_consumers(self) -> dict[str, consumers_api.Handler]:
        from millstream.jetstream.consumers.api import ConsumerApi

        return ConsumerApi(self._account, self._server_version, strict=self._strict).handlers

    @cached_property
    def _handlers(self) -> dict[str, Handler]:
        from millstream.jetstream.stream.api import StreamApi

        streams = StreamApi(self._account, self._server_name, self._server_version, strict=self._strict)
        return {
            "INFO": self._account_info,
            "STREAM.CREATE.*": streams.create,
            "STREAM.UPDATE.*": streams.update,
            "STREAM.NAMES": streams.names,
            "STREAM.LIST": streams.page,
            "STREAM.INFO.*": streams.info,
            "STREAM.DELETE.*": streams.delete,
            "STREAM.PURGE.*": streams.purge,
            "STREAM.MSG.GET.*": streams.get,
            "STREAM.MSG.DELETE.*": streams.delete_message,
            **dict.fromkeys(_CLUSTER_ONLY, _needs_cluster),
        }

    def start(self) -> None:
        self._listening.start()

    def stop(self) -> None:
        self._listening.stop()
        if self._archives is not None:
            self._archives.stop()

    def answer(self, subject: bytes, request: ClientRequest) -> None:
        endpoint, name = find_endpoint(subject)
        if not endpoint:
            return
        self._begin(_Call(endpoint, kind_of(endpoint), name, subject, request))

    def _begin(self, call: _Call) -> None:
        stream = self._account.streams.get(call.name.partition(".")[0])
        awaited = None if stream is None else self._awaited(call.endpoint, stream)
        if stream is None or awaited is None:
            self._go_on(call)
        elif awaited is stream:
            self._wait(call, stream, lambda _: self._go_on(call))
        else:  # the place of its folder; its next commit may come later
            self._wait(call, awaited, lambda _: self._begin(call))

    def _go_on(self, call: _Call) -> None:
        if self._account.is_deleting(call.name.partition(".")[0]):  # which waits for the same commit
            self._account.world.call_soon(lambda: self._go_on(call))
        else:
            self._answer(call, lambda: self._handle(call))

    def _awaited(self, endpoint: str, stream: Stream) -> PendingCommit | None:
        """Return what a request waits for: what it may see is not durable yet; None if all of it is."""
        awaited = self._account.awaited(stream)
        if awaited is not None:
            return awaited
        reads = endpoint in _READING and stream.failure is None and stream.log.last_seq > stream.log.committed
        return stream if reads else None

    def _handle(self, call: _Call) -> Answer:
        of_consumers = self._of_consumers.get(call.endpoint)
        if of_consumers is not None:
            return of_consumers(call.name, call.request)
        if call.endpoint in _OF_ARCHIVES:
            if self._archives is None:
                from millstream.jetstream.snapshots.api import ArchiveApi

                self._archives = ArchiveApi(self._account, self._server_version, strict=self._strict)
            return self._archives.handlers[call.endpoint](call.name, call.request)
        _check_level(call.endpoint, call.request)
        return self._handlers[call.endpoint](call.name, call.request.payload)

    def _answer(self, call: _Call, handle: Callable[[], Answer]) -> None:
        try:
            response = handle()
        except ApiError as error:
            self._fail(call, error, counts=error.err not in _NOT_COUNTED)
            return
        except JsonError as error:
            self._fail(call, ApiError(Err.INVALID_JSON, err=str(error)))
            return
        except TooManySteps as error:
            _log.warning("account %s: %s: %s", self._account.name, call.endpoint, error)
            self._fail(call, ApiError(Err.BAD_REQUEST))
            return
        except StoreError as error:
            self._fail_to_store(call, error)
            return
        except Exception as error:
            guard.report(f"the API request {call.endpoint}", error)
            self._fail(call, ApiError(Err.STREAM_GENERAL, err=INTERNAL_ERROR))
            return
        if response is None:
            return
        if isinstance(response, Durable):
            self._answer_when_durable(call, response)
            return
        if isinstance(response, Generator):
            self._answer_in_slices(call, response)
            return
        if isinstance(response, Later):
            finish = response.finish
            self._wait(call, response.stream, lambda _: self._answer(call, finish))
            return
        stream = self._account.streams.get(call.name) if call.endpoint in _CHANGING else None
        if stream is None:
            self._send(call, response)
        else:
            self._wait(
                call,
                stream,
                lambda error: (
                    self._send(call, response) if error is None else self._fail_to_store(call, error)
                ),
            )

    def _answer_in_slices(self, call: _Call, pieces: Steps) -> None:
        """Process long requests one after the other, because each may need much memory."""

        def done(response: Answer, error: Exception | None) -> None:
            def outcome() -> Answer:
                if error is not None:
                    raise error
                return response

            if not isinstance(error, Unwanted):
                self._answer(call, outcome)

        name = name_of_endpoint(call.endpoint)
        if self._long.begin(name, pieces, done, lambda: self._is_wanted(call)) is None:
            self._full.warn("account %s: too many API requests wait, one is dropped", self._account.name)
            self._account.advisories.api_limit_reached(1)

    def _seconds(self) -> float:
        return self._account.world.steady_ns() / _SECOND

    def _is_wanted(self, call: _Call) -> bool:
        """Return True if the client is connected, or there is another subscriber for the response.

        Requests that change something are always processed.
        """
        reply = call.request.reply
        if call.endpoint in _ALWAYS_WANTED:
            return True
        if not call.request.requester.closed:
            return True
        return bool(reply) and self._account.world.has_interest(reply)

    def _answer_when_durable(self, call: _Call, answer: Durable) -> None:
        def commit_ended(error: StoreError | None) -> None:
            if error is not None:
                if answer.undo is not None:
                    answer.undo()
                _log.error("%s", error)
                self._fail(call, ApiError(Err.CONSUMER_STORE_FAILED, err=client_text(error)))
                return
            if answer.then is not None:
                answer.then()
            self._send(call, answer.response, answer.headers)

        self._wait(call, answer.commits, commit_ended)

    def _wait(self, call: _Call, stream: PendingCommit, go_on: Callable[[StoreError | None], None]) -> None:
        """Continue after the next commit; beyond a limit of waiting requests, drop the request."""
        waiting = self._infos if call.endpoint in _INFOS else self._requests
        if waiting.count >= waiting.limit:
            self._full.warn("account %s: too many API requests wait, one is dropped", self._account.name)
            self._account.advisories.api_limit_reached(1)
            return
        waiting.count += 1

        def commit_ended(error: StoreError | None) -> None:
            waiting.count -= 1
            go_on(error)

        stream.on_outcome(commit_ended)

    def _fail(self, call: _Call, error: ApiError, *, counts: bool = True) -> None:
        self._account.api_errors += counts
        self._send(call, call.kind(error=error.body))

    def _fail_to_store(self, call: _Call, error: StoreError) -> None:
        _log.error("%s", error)
        self._fail(call, ApiError(Err.STREAM_STORE_FAILED, err=client_text(error)))

    def _send(self, call: _Call, response: responses.Response | Encoded, block: bytes | None = None) -> None:
        text = response.text if isinstance(response, Encoded) else encode(response)
        if call.request.reply:
            call.request.answer(text, headers=block)
        if call.endpoint == "STREAM.MSG.GET.*" and not _failed(response):
            return  # neither counted nor audited, like any other way to get a message
        if call.endpoint == _RESET:
            return  # in nats-server it is the consumer itself that answers
        self._account.api_total += 1
        audit = self._account.advisories.api_audit
        if len(text) < _LONG:
            audit(call.subject, call.request, text)
        else:
            self._account.world.call_soon(lambda: audit(call.subject, call.request, text))

    def _account_info(self, _: str, __: bytes) -> responses.AccountInfoResponse:
        return responses.AccountInfoResponse(info=self._account.info())


class DisabledApi:
    """The API of an account without JetStream on a server with it; responds with an error."""

    def __init__(self, world: Messaging, advisories: Advisories) -> None:
        self._world = world
        self._advisories = advisories
        self._listening = Listening(world, self.answer)

    def start(self) -> None:
        self._listening.start()

    def stop(self) -> None:
        self._listening.stop()

    def answer(self, subject: bytes, request: ClientRequest) -> None:
        endpoint, _ = find_endpoint(subject)
        if not endpoint or endpoint == _RESET or not request.reply:
            return
        refusal = Err.NOT_ENABLED_FOR_ACCOUNT
        if endpoint in _CLUSTER_ONLY:
            refusal = Err.CLUSTER_REQUIRED
        elif beyond_ours(request.headers):
            refusal = Err.REQUIRED_API_LEVEL
        text = encode(kind_of(endpoint)(error=ApiError(refusal).body))
        request.answer(text)
        self._advisories.api_audit(subject, request, text)


class Listening:
    """The subscriptions of an API.  Subjects of a domain are mapped to them before."""

    def __init__(
        self, world: Messaging, answer: Callable[[bytes, ClientRequest], None], *, everything: bool = False
    ) -> None:
        self._world = world
        self._answer = answer
        self._spared = () if everything else _NOT_SERVED
        self._handle: Any = None

    def start(self) -> None:
        self._handle = self._world.serve(_PREFIX + b">", self._receive, spared=self._spared)

    def stop(self) -> None:
        if self._handle is not None:
            self._world.release(self._handle)
            self._handle = None

    def _receive(self, request: ClientRequest) -> None:
        self._answer(request.subject, request)


def find_endpoint(subject: bytes) -> tuple[str, str]:
    """Return the endpoint of a subject and the subject's tokens for its wildcards; empty if there is none."""
    tokens = subject[len(_PREFIX) :].decode(errors="replace").split(".")
    for wildcards in (0, 1, 2):
        endpoint = ".".join((*tokens[: len(tokens) - wildcards], *("*",) * wildcards))
        if endpoint in _ANSWERS or endpoint in _CLUSTER_ONLY:
            return endpoint, ".".join(tokens[len(tokens) - wildcards :])
    if tokens[:2] == ["CONSUMER", "CREATE"] and len(tokens) > 3:
        return "CONSUMER.CREATE.*.>", ".".join(tokens[2:])
    return "", ""


def name_of_endpoint(endpoint: str) -> str:
    """Return the watchdog's name of a request: ``api STREAM.PURGE``."""
    return f"api {endpoint.rstrip('.*>')}"


def kind_of(endpoint: str) -> Kind:
    """Return the response type of an endpoint."""
    return _ANSWERS.get(endpoint) or _CLUSTER_ONLY[endpoint]


def _failed(response: responses.Response | Encoded) -> bool:
    return isinstance(response, responses.Response) and response.error is not None


def _needs_cluster(_: str, __: bytes) -> responses.Response:
    raise ApiError(Err.CLUSTER_REQUIRED)


def _check_level(endpoint: str, request: ClientRequest) -> None:
    """Raise ApiError if a request needs a higher API level, except for endpoints of clusters."""
    if endpoint not in _CLUSTER_ONLY and beyond_ours(request.headers):
        raise ApiError(Err.REQUIRED_API_LEVEL)
