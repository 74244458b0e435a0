"""The documents that system requests can ask for, and the options of each.

``server.monitor`` builds the documents, for HTTP as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.base.slices import Pieces
from millstream.golang.quote import quoted
from millstream.server.monitor.accountz import (
    AccountStatzOptions,
    AccountzOptions,
    account_info,
    account_statz,
    accountz,
)
from millstream.server.monitor.clusterz import gatewayz, routez
from millstream.server.monitor.connz import ConnzOptions, connz
from millstream.server.monitor.healthz import HealthzOptions, healthz
from millstream.server.monitor.jsz import JszOptions, jetstream_of, jsz
from millstream.server.monitor.leafz import LeafzOptions, leafz
from millstream.server.monitor.queries import BadQuery
from millstream.server.monitor.subsz import SubszOptions, subsz
from millstream.server.monitor.varz import varz
from millstream.server.system.options import NoOptions

if TYPE_CHECKING:
    from millstream.server.server import Server


class NoAnswer(MillstreamError):
    """No response is sent, as if the request was meant for another server."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document that can be requested.

    `build` gets the server, the options and the name of the account that it is about (empty: all), and works
    in pieces (``base.slices``); a MillstreamError from it is sent to the requester.
    """

    owner: str  # the name of the options in error messages
    options: type[msgspec.Struct]
    build: Callable[[Server, Any, str], Pieces[Any]]


def _account_connz(server: Server, options: ConnzOptions, about: str) -> Pieces[Any]:
    return connz(server, msgspec.structs.replace(options, account=about))


def _account_subsz(server: Server, options: SubszOptions, about: str) -> Pieces[Any]:
    return subsz(server, msgspec.structs.replace(options, account=about, subscriptions=True))


def _account_jsz(server: Server, options: JszOptions, about: str) -> Pieces[Any]:
    view = jetstream_of(server)
    if view is None:
        raise BadQuery("jetstream not enabled")
    if about not in server.broker.accounts:
        raise BadQuery(f"account {quoted(about)} not found")
    if not view.account_enabled(about):
        raise BadQuery(f"account {quoted(about)} not jetstream enabled")
    yield 1
    return view.account(about, options)


def _account_leafz(server: Server, options: LeafzOptions, about: str) -> Pieces[Any]:
    return leafz(server, msgspec.structs.replace(options, account=about))


def _account_statz(server: Server, options: AccountStatzOptions, about: str) -> Pieces[Any]:
    if about:
        options = msgspec.structs.replace(options, accounts=[about])
    document = yield from account_statz(server, options)
    if not document.account_statz and not options.include_unused:
        raise NoAnswer("no account that is in use")
    return document


def _short(make: Callable[[Server], Any]) -> Callable[[Server, Any, str], Pieces[Any]]:
    """Return the `build` of a document that is short enough for one piece."""

    def build(server: Server, _: Any, __: str) -> Pieces[Any]:
        yield 1
        return make(server)

    return build


SERVER_DOCUMENTS: Final = {
    "VARZ": Document("VarzEventOptions", NoOptions, lambda server, _options, _about: varz(server)),
    "CONNZ": Document("ConnzEventOptions", ConnzOptions, lambda server, options, _: connz(server, options)),
    "SUBSZ": Document("SubszEventOptions", SubszOptions, lambda server, options, _: subsz(server, options)),
    "ROUTEZ": Document("RoutezEventOptions", NoOptions, _short(routez)),
    "GATEWAYZ": Document("GatewayzEventOptions", NoOptions, _short(gatewayz)),
    "LEAFZ": Document("LeafzEventOptions", LeafzOptions, lambda server, options, _: leafz(server, options)),
    "ACCOUNTZ": Document(
        "AccountzEventOptions", AccountzOptions, lambda server, options, _: accountz(server, options)
    ),
    "JSZ": Document("JszEventOptions", JszOptions, lambda server, options, _: jsz(server, options)),
    "HEALTHZ": Document(
        "HealthzEventOptions", HealthzOptions, lambda server, options, _: healthz(server, options)
    ),
}

ACCOUNT_DOCUMENTS: Final = {
    "CONNZ": Document("ConnzEventOptions", ConnzOptions, _account_connz),
    "SUBSZ": Document("SubszEventOptions", SubszOptions, _account_subsz),
    "LEAFZ": Document("LeafzEventOptions", LeafzOptions, _account_leafz),
    "JSZ": Document("JszEventOptions", JszOptions, _account_jsz),
    "INFO": Document("AccInfoEventOptions", NoOptions, lambda server, _, about: account_info(server, about)),
    "STATZ": Document("AccountStatzEventOptions", AccountStatzOptions, _account_statz),
}
