"""`/healthz`: reports whether clients can connect and streams and consumers are healthy."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from millstream.base.slices import Pieces
from millstream.server.monitor.jsz import jetstream_of

if TYPE_CHECKING:
    from millstream.server.server import Server


class HealthzOptions(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The parts to check; field names are those of a request to the system account."""

    js_enabled: bool = False  # older name of the next option
    js_enabled_only: bool = False
    js_server_only: bool = False
    js_meta_only: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False


class HealthErrorType(StrEnum):
    CONNECTION = "CONNECTION"
    BAD_REQUEST = "BAD_REQUEST"
    JETSTREAM = "JETSTREAM"
    ACCOUNT = "ACCOUNT"
    STREAM = "STREAM"
    CONSUMER = "CONSUMER"


class HealthError(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One problem."""

    type: HealthErrorType
    account: str = ""
    stream: str = ""
    consumer: str = ""
    error: str = ""


class HealthStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result; over HTTP, `status_code` is the status of the response and left out here."""

    status: str
    status_code: int = 0
    error: str = ""
    errors: list[HealthError] = []


def healthz(server: Server, options: HealthzOptions | None = None) -> Pieces[HealthStatus]:
    """Return the result: the first problem, or with details all of them."""
    options = options or HealthzOptions()
    code, errors = yield from _examine(server, options)
    if not errors:
        return HealthStatus(status="ok", status_code=HTTPStatus.OK)
    if options.details:
        return HealthStatus(status="error", status_code=code, errors=errors)
    ours = errors[0].type in (HealthErrorType.CONNECTION, HealthErrorType.BAD_REQUEST)
    return HealthStatus(status="error" if ours else "unavailable", status_code=code, error=errors[0].error)


def _examine(server: Server, options: HealthzOptions) -> Pieces[tuple[HTTPStatus, list[HealthError]]]:
    if options.stream and not options.account:
        return _bad_request('"account" must not be empty when checking stream health')
    if options.consumer and not options.stream:
        return _bad_request('"stream" must not be empty when checking consumer health')
    if not server.ready:
        text = "failed to be ready for connections after 1ms: server"
        return HTTPStatus.INTERNAL_SERVER_ERROR, [HealthError(type=HealthErrorType.CONNECTION, error=text)]
    view = jetstream_of(server)
    if options.js_server_only or view is None:
        return HTTPStatus.OK, []
    return (yield from view.health(options))


def _bad_request(text: str) -> tuple[HTTPStatus, list[HealthError]]:
    return HTTPStatus.BAD_REQUEST, [HealthError(type=HealthErrorType.BAD_REQUEST, error=text)]
