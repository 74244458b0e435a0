"""The routes of monitoring: from a path and its query to a rendered document, and the index page.

Documents are made and rendered in slices, so that no client's messages wait for a page of connections.
"""

from __future__ import annotations

import asyncio
import posixpath
import urllib.parse
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream import __version__
from millstream.base.lanes import Unwanted
from millstream.base.slices import Pieces, Result
from millstream.server.monitor import internals
from millstream.server.monitor.accountz import AccountStatzOptions, AccountzOptions, account_statz, accountz
from millstream.server.monitor.clusterz import gatewayz, routez
from millstream.server.monitor.connz import ConnectionState, ConnzOptions, connz
from millstream.server.monitor.formats import compact, pretty
from millstream.server.monitor.healthz import HealthzOptions, healthz
from millstream.server.monitor.http import MAX_CLIENTS, MonitorRequest, MonitorResponse, plain
from millstream.server.monitor.index_page import index_page
from millstream.server.monitor.json_page import render
from millstream.server.monitor.jsz import JszOptions, jsz
from millstream.server.monitor.leafz import LeafzOptions, leafz
from millstream.server.monitor.queries import BadQuery, Query
from millstream.server.monitor.subsz import SubszOptions, subsz
from millstream.server.monitor.varz import varz

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from millstream.server.monitor.metrics import ServerMetrics
    from millstream.server.server import Server

_AT_A_TIME: Final = 4  # long documents that are made at the same time
_JSON: Final = "application/json"
_ANYONE: Final = ("Access-Control-Allow-Origin", "*")

_STATES: Final = {
    "": ConnectionState.OPEN,
    "open": ConnectionState.OPEN,
    "closed": ConnectionState.CLOSED,
    "any": ConnectionState.ALL,
    "all": ConnectionState.ALL,
}
_LINKS: Final = (
    ("General", "/varz"),
    ("Connections", "/connz"),
    ("Accounts", "/accountz"),
    ("Account statistics", "/accstatz"),
    ("Subscriptions", "/subsz"),
    ("JetStream", "/jsz"),
    ("Routes", "/routez"),
    ("Leaf nodes", "/leafz"),
    ("Gateways", "/gatewayz"),
    ("Health probe", "/healthz"),
    ("Metrics for Prometheus", "/metrics"),
    ("Process variables", "/debug/vars"),
    ("Stacks", "/stacksz"),
)

Page = Callable[[Query], Awaitable[MonitorResponse]]


class MonitorRoutes:
    """Serves every path below a base path, and counts the requests for `/varz` in `counts`."""

    def __init__(self, server: Server, base_path: str, counts: Counter[str]) -> None:
        self.counts = counts
        self._server = server
        self._long = server.broker.turns.lane(width=_AT_A_TIME, most_waiting=MAX_CLIENTS)
        self._base = posixpath.normpath("/" + base_path.strip("/"))
        self._metrics: ServerMetrics | None = None
        # A page that is counted is counted under its first path.
        self._pages: dict[str, tuple[str, Page]] = {
            self._base: ("/", self._root),
            **{
                posixpath.join(self._base, path.lstrip("/")): (counted_as, page)
                for path, counted_as, page in (
                    ("/varz", "/varz", self._varz),
                    ("/connz", "/connz", self._connz),
                    ("/routez", "/routez", self._routez),
                    ("/gatewayz", "/gatewayz", self._gatewayz),
                    ("/leafz", "/leafz", self._leafz),
                    ("/subsz", "/subsz", self._subsz),
                    ("/subscriptionsz", "/subsz", self._subsz),
                    ("/accountz", "/accountz", self._accountz),
                    ("/accstatz", "/accstatz", self._account_statz),
                    ("/jsz", "/jsz", self._jsz),
                    ("/healthz", "/healthz", self._healthz),
                    ("/metrics", "/metrics", self._prometheus),
                    ("/stacksz", "", self._stacks),
                    ("/ipqueuesz", "", self._queues),
                    ("/raftz", "", self._raftz),
                    ("/debug/vars", "", self._variables),
                )
            },
        }

    async def handle(self, request: MonitorRequest) -> MonitorResponse:
        path = urllib.parse.unquote(request.path, errors="replace")
        found = self._pages.get(path)
        if found is None:
            return self._elsewhere(path, request.query)
        counted_as, page = found
        if counted_as:
            self.counts[counted_as] += 1
        try:
            return await page(Query(request.query, request.wanted))
        except BadQuery as error:
            return plain(HTTPStatus.BAD_REQUEST, str(error))
        except Unwanted:
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, "")

    async def _in_slices(self, path: str, query: Query, pieces: Pieces[Result]) -> Result:
        """Run long work in slices; stop if the client disconnects."""
        ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Result | None, error: Exception | None) -> None:
            if ended.done():
                return
            if error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(result)  # type: ignore[arg-type]

        watchdog = self._server.broker.turns.watchdog
        name = f"http {path}"
        began = watchdog.began()
        work = self._long.begin(name, pieces, done, query.wanted)
        watchdog.ended(began, name)
        if work is None:
            raise BadQuery("too many requests wait for long documents")
        try:
            return await ended
        finally:
            work.drop()

    async def _document(self, path: str, query: Query, document: Pieces[Any]) -> MonitorResponse:
        text = await self._in_slices(path, query, _pretty(document))
        return MonitorResponse(HTTPStatus.OK, _JSON, text, [_ANYONE])

    def _elsewhere(self, path: str, query: str) -> MonitorResponse:
        """Return a redirect for a path with doubled slashes or dots, as Go's server does."""
        clean = "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path
        if clean in self._pages and clean != path.rstrip("/"):
            location = urllib.parse.quote(clean) + (f"?{query}" if query else "")
            return plain(HTTPStatus.TEMPORARY_REDIRECT, "", ("Location", location))
        return plain(HTTPStatus.NOT_FOUND, "404 page not found\n", ("X-Content-Type-Options", "nosniff"))

    # -- pages ------------------------------------------------------------------------------------

    async def _root(self, query: Query) -> MonitorResponse:
        page = index_page(self._server.broker.identity.server_name, __version__, self._base, _LINKS)
        return MonitorResponse(HTTPStatus.OK, "text/html; charset=utf-8", [page])

    async def _varz(self, query: Query) -> MonitorResponse:
        return await self._document("/varz", query, varz(self._server))

    async def _connz(self, query: Query) -> MonitorResponse:
        subscriptions, details = _subscriptions(query)
        options = ConnzOptions(
            sort=query.text("sort"),
            username=query.boolean("auth"),
            subscriptions=subscriptions,
            subscriptions_detail=details,
            offset=query.integer("offset"),
            limit=query.integer("limit"),
            cid=query.unsigned("cid"),
            mqtt_client=query.text("mqtt_client"),
            state=_state(query.text("state")),
            user=query.text("user"),
            account=query.text("acc"),
            filter_subject=query.text("filter_subject"),
        )
        return await self._document("/connz", query, connz(self._server, options))

    async def _subsz(self, query: Query) -> MonitorResponse:
        options = SubszOptions(
            subscriptions=query.boolean("subs"),
            offset=query.integer("offset"),
            limit=query.integer("limit"),
            test=query.text("test"),
            account=query.text("acc"),
        )
        return await self._document("/subsz", query, subsz(self._server, options))

    async def _routez(self, query: Query) -> MonitorResponse:
        _subscriptions(query)
        return _document(routez(self._server))

    async def _gatewayz(self, query: Query) -> MonitorResponse:
        _subscriptions(query)
        query.boolean("accs")
        return _document(gatewayz(self._server))

    async def _leafz(self, query: Query) -> MonitorResponse:
        options = LeafzOptions(subscriptions=query.boolean("subs"), account=query.text("acc"))
        return await self._document("/leafz", query, leafz(self._server, options))

    async def _accountz(self, query: Query) -> MonitorResponse:
        options = AccountzOptions(account=query.text("acc"))
        return await self._document("/accountz", query, accountz(self._server, options))

    async def _account_statz(self, query: Query) -> MonitorResponse:
        options = AccountStatzOptions(include_unused=query.boolean("unused"))
        return await self._document("/accstatz", query, account_statz(self._server, options))

    async def _jsz(self, query: Query) -> MonitorResponse:
        options = JszOptions(
            account=query.text("acc"),
            accounts=query.boolean("accounts"),
            streams=query.boolean("streams"),
            consumer=query.boolean("consumers"),
            direct_consumer=query.boolean("direct-consumers"),
            config=query.boolean("config"),
            offset=query.integer("offset"),
            limit=query.integer("limit"),
            leader_only=query.boolean("leader-only"),
            raft=query.boolean("raft"),
            stream_leader_only=query.boolean("stream-leader-only"),
        )
        return await self._document("/jsz", query, jsz(self._server, options))

    async def _healthz(self, query: Query) -> MonitorResponse:
        options = HealthzOptions(
            js_enabled=query.boolean("js-enabled"),
            js_enabled_only=query.boolean("js-enabled-only"),
            js_server_only=query.boolean("js-server-only"),
            js_meta_only=query.boolean("js-meta-only"),
            details=query.boolean("details"),
            account=query.text("account"),
            stream=query.text("stream"),
            consumer=query.text("consumer"),
        )
        health = await self._in_slices("/healthz", query, healthz(self._server, options))
        body = compact(msgspec.structs.replace(health, status_code=0))
        return MonitorResponse(health.status_code, _JSON, [body], [_ANYONE])

    async def _prometheus(self, query: Query) -> MonitorResponse:
        # Prometheus' library is imported with the first scrape: a server that nobody scrapes starts faster.
        # That takes long, and so does counting thousands of descriptors: a thread does both.
        metrics, process = await asyncio.to_thread(self._scrape_process)
        text = await self._in_slices("/metrics", query, metrics.render(process))
        return MonitorResponse(HTTPStatus.OK, metrics.CONTENT_TYPE, text)

    def _scrape_process(self) -> tuple[ServerMetrics, list[Metric]]:
        if self._metrics is None:
            from millstream.server.monitor.metrics import ServerMetrics

            self._metrics = ServerMetrics(self._server, self.counts)
        return self._metrics, self._metrics.of_process()

    async def _stacks(self, query: Query) -> MonitorResponse:
        return MonitorResponse(HTTPStatus.OK, "text/plain; charset=utf-8", [internals.stacks()], [_ANYONE])

    async def _queues(self, query: Query) -> MonitorResponse:
        query.boolean("all")
        return _document(internals.queues())

    async def _raftz(self, query: Query) -> MonitorResponse:
        return plain(HTTPStatus.NOT_FOUND, "No Raft nodes registered")

    async def _variables(self, query: Query) -> MonitorResponse:
        return MonitorResponse(
            HTTPStatus.OK, f"{_JSON}; charset=utf-8", [compact(internals.variables()), b"\n"]
        )


def _subscriptions(query: Query) -> tuple[bool, bool]:
    """Return whether to list subscriptions, and whether in detail."""
    if query.text("subs").lower() == "detail":
        return False, True
    return query.boolean("subs"), False


def _state(text: str) -> ConnectionState:
    try:
        return _STATES[text.lower()]
    except KeyError:
        raise BadQuery(f"Error decoding state for {text}") from None


def _document(document: Any) -> MonitorResponse:
    return MonitorResponse(HTTPStatus.OK, _JSON, [pretty(document)], [_ANYONE])


def _pretty(document: Pieces[Any]) -> Pieces[list[bytes]]:
    found = yield from document
    return (yield from render(found, pretty=True))
