"""The server as a whole: listeners, broker and monitoring, started in order and stopped in reverse.

    async with Server() as server:
        connection = await nats.connect(server.client_url)

Runs in the event loop it is started in.  ``BlockingServer`` brings a thread and a loop of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from msgspec.structs import replace

from millstream.base import nkeys
from millstream.base.errors import MillstreamError
from millstream.base.slices import Pieces
from millstream.broker import feature_flags, handshake
from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from millstream.broker.info import SERVER_VERSION
from millstream.broker.listener import ClientListener
from millstream.broker.options import GLOBAL_ACCOUNT, BrokerOptions, ConnectionType, LeafOptions
from millstream.config.load import load
from millstream.config.options import MonitorOptions, ServerOptions
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamOptions
from millstream.server import later
from millstream.server.jetstream_service import JetStreamService
from millstream.server.system.events import SystemEvents

if TYPE_CHECKING:
    from millstream.config.reload import ReloadPlan
    from millstream.otel.sender import Sender
    from millstream.otel.spans import SpanQueue
    from millstream.server.arrow import ArrowEndpoint
    from millstream.server.monitor.endpoint import Monitor
    from millstream.server.reload import Reloads

_log = logging.getLogger("millstream.server")

_MAX_CLOSE_GAP_S: Final = 1.0  # between two clients that lame duck mode sends away
_SHUTDOWN_GRACE_S: Final = 0.5  # for the last bytes to clients


class Server:
    """A NATS server in this process.

    By default it listens on a free loopback port, so that any number can run beside each other.
    With `store_dir`, JetStream keeps its streams there.  Pass `config` (the path of a nats-server
    configuration file), or complete `options`, for everything that the arguments here do not name.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        config: str | None = None,
        options: ServerOptions | None = None,
        monitor: bool = False,
        store_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if options is None:
            options = load(config) if config is not None else ServerOptions()
            broker = options.broker
            if config is None:
                broker = replace(broker, host=host, port=port if port else -1)
            options = replace(options, broker=broker)
            if monitor and not options.monitor.enabled:
                options = replace(options, monitor=MonitorOptions(host=host, http_port=-1))
            if store_dir is not None:
                options = replace(options, jetstream=_stored_in(os.fspath(store_dir), options))
        self.options = options
        self.started_ns = 0
        self.configured_ns = 0  # when the options in force were loaded
        self.reload_listeners: list[Callable[[ReloadPlan], Pieces[None] | None]] = []
        self.broker: Broker
        self.events: SystemEvents
        self.jetstream: JetStreamService
        self._listener: ClientListener | None = None
        self._websocket: ClientListener | None = None
        self._leafs: ClientListener | None = None
        self._monitor: Monitor | None = None
        self._arrow: ArrowEndpoint | None = None
        self.otel: Sender | None = None  # what is sent to OpenTelemetry, while the server runs
        self._lame_duck: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._reloads: Reloads | None = None
        self._failed_to_start = False
        self._stopped: asyncio.Event
        self.imports_later = False  # what ``later`` lists; the process that is a server sets it
        self._watch_no_more: Callable[[], None]

    # -- where it is ------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Return the port for clients, which is known after the start."""
        if self._listener is None:
            raise MillstreamError("this server has no port yet: start it, or enter it with `async with`")
        return self._listener.port

    @property
    def client_url(self) -> str:
        """Return the URL for ``nats.connect``."""
        scheme = "tls" if self.options.broker.tls is not None else "nats"
        return f"{scheme}://{_reachable(self.options.broker.host)}:{self.port}"

    @property
    def websocket_url(self) -> str:
        if self._websocket is None or self.options.broker.websocket is None:
            raise LookupError("this server has no websocket listener; configure one in `websocket`")
        scheme = "ws" if self.options.broker.websocket.tls is None else "wss"
        return f"{scheme}://{_reachable(self.options.broker.websocket.host)}:{self._websocket.port}"

    @property
    def leaf_port(self) -> int:
        """Return the port for leaf nodes, which is known after the start."""
        if self._leafs is None:
            raise LookupError("this server accepts no leaf nodes; give `leafnodes` a port")
        return self._leafs.port

    def ports(self) -> dict[str, list[str]]:
        """Return all addresses in use, in the form of the ports file."""
        ports = {"nats": [self.client_url]}
        if self._monitor is not None:
            ports["monitoring"] = [self._monitor.url]
        if self._websocket is not None:
            ports["websocket"] = [self.websocket_url]
        if self._leafs is not None and self.options.broker.leaf is not None:
            ports["leafnodes"] = [f"nats://{_reachable(self.options.broker.leaf.host)}:{self.leaf_port}"]
        if self._arrow is not None:
            ports["arrow"] = [self._arrow.url]
        return ports

    @property
    def monitor(self) -> Monitor | None:
        """Return the monitoring endpoint, or None."""
        return self._monitor

    @property
    def spans(self) -> SpanQueue | None:
        """Return the queue for spans of sampled messages; None if none are recorded."""
        return self.otel.spans if self.otel is not None else None

    @property
    def ready(self) -> bool:
        """Return True if new clients are accepted."""
        listener = self._listener
        return listener is not None and listener.port > 0 and not self.broker.lame_duck and not self._stopping

    @property
    def monitor_url(self) -> str:
        if self._monitor is None:
            raise LookupError("this server has no monitoring endpoint; ask for one with `monitor=True`")
        return self._monitor.url

    @property
    def arrow_url(self) -> str:
        """Return the URL of the Arrow endpoint (docs/arrow.md)."""
        if self._arrow is None:
            raise LookupError("this server has no Arrow endpoint; it comes with JetStream: give `store_dir`")
        return self._arrow.url

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on all addresses; if one of them is not available, release the others and raise.

        A stopped server can be started again.
        """
        if self.started_ns and self._stopping is None:
            raise MillstreamError("this server runs already; stop it before it is started again")
        loop = asyncio.get_running_loop()
        self._stopping = self._listener = self._websocket = self._monitor = self._reloads = None
        self._leafs = None
        self._failed_to_start = False
        self._stopped = asyncio.Event()
        if not self.imports_later:
            later.load([*later.needed_at_once(self.options), *later.needed_later(self.options)])
        self.started_ns = self.configured_ns = time.time_ns()
        self.broker = self._new_broker(loop)
        self._watch_no_more = self.broker.turns.watchdog.watch_collections()
        self._announce()
        if self.broker.options.trust is not None:
            from millstream.server.operator import start_operator

            start_operator(self)
        self.events = SystemEvents(self)
        self.broker.observer = self.events
        self.jetstream = JetStreamService(self)
        self._start_otel()
        try:
            self.jetstream.start()
            await self._start_monitor()
            self.follow_jetstream()
            await self._listen(self.options.broker)
        except asyncio.CancelledError:
            await self.stop()
            raise
        except BaseException:
            self._failed_to_start = True
            await self.stop()
            raise
        self.events.start()
        if self.broker.leafs is not None:
            self.broker.leafs.start()
        if not self.options.jetstream.enabled:
            _log.info(
                "JetStream is off: switch it on with -js, with jetstream {} in the configuration, or with "
                "store_dir of millstream.Server"
            )
        _log.info("Server is ready")
        if self.imports_later:
            later.load_in_thread(self.options)

    def _new_broker(self, loop: asyncio.AbstractEventLoop) -> Broker:
        options = self.options.broker
        if not options.signs:
            return Broker(options, server_id=nkeys.new_server_id(), xkey=nkeys.new_xkey(), loop=loop)
        from millstream.base.server_keys import ServerKeys

        keys = ServerKeys()
        return Broker(options, server_id=keys.server_id, xkey=keys.xkey, keys=keys, loop=loop)

    def _announce(self) -> None:
        from millstream import BUILD, __version__

        _log.info("Starting Millstream")
        _log.info("  Version:  %s (millstream %s, %s)", SERVER_VERSION, __version__, BUILD)
        _log.info("  Name:     %s", self.broker.identity.server_name)
        _log.info("  ID:       %s", self.broker.identity.server_id)
        self._announce_flags(self.broker.options.feature_flags)
        if self.broker.authenticator.has_plain_passwords:
            _log.warning("Plaintext passwords detected, use nkeys or bcrypt")
        if self.options.config_file:
            _log.info(
                "Using configuration file: %s (%s)", self.options.config_file, self.options.config_digest
            )

    def _announce_flags(self, chosen: Mapping[str, bool]) -> None:
        if not chosen:
            return
        in_force = feature_flags.in_force(chosen)
        known = [f"{name} ({'on' if on else 'off'})" for name, on in in_force.items() if name in chosen]
        _log.info("  Feature flags: %s", ", ".join(known) or "none")
        if unknown := feature_flags.unknown(chosen):
            _log.warning("Feature flags that this version does not know are ignored: %s", ", ".join(unknown))

    def _start_otel(self) -> None:
        if self.options.otel is not None:
            from millstream.server.otel import start_sender

            self.otel = start_sender(self, self.options.otel)

    async def _start_monitor(self) -> None:
        if self.options.monitor.enabled:
            from millstream.server.monitor.endpoint import Monitor

            self._monitor = Monitor(self, self.options.monitor)
            await self._monitor.start()
            _log.info("Starting %s monitor on %s", self._monitor.scheme, self._monitor.address)

    def follow_jetstream(self) -> None:
        """Start the Arrow endpoint if JetStream is enabled."""
        options = self.options.arrow
        if self._arrow is None and options.enabled and self.jetstream.engine is not None:
            from millstream.server.arrow import ArrowEndpoint

            endpoint = ArrowEndpoint(self, options)
            endpoint.start()
            self._arrow = endpoint

    async def _stop_arrow(self) -> None:
        """Stop the Arrow endpoint, before JetStream closes the logs that it reads."""
        endpoint, self._arrow = self._arrow, None
        if endpoint is not None:
            await endpoint.stop()

    async def _listen(self, options: BrokerOptions) -> None:
        websocket = options.websocket
        if websocket is not None:
            self._websocket = ClientListener(self.broker, ConnectionType.WEBSOCKET, websocket.tls)
            await self._websocket.start(websocket.host, websocket.port)
            self.broker.identity.websocket_port = self._websocket.port
            scheme = "ws" if websocket.tls is None else "wss"
            _log.info(
                "Listening for websocket clients on %s://%s:%d", scheme, websocket.host, self._websocket.port
            )
            if websocket.tls is None:
                _log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
        if options.leaf is not None and options.leaf.port:
            self._leafs = ClientListener(self.broker, ConnectionType.LEAFNODE, options.leaf.tls)
            await self._leafs.start(options.leaf.host, options.leaf.port)
            assert self.broker.leafs is not None
            self.broker.leafs.listens(self._leafs.port)
            _log.info("Listening for leafnode connections on %s:%d", options.leaf.host, self._leafs.port)
        self._listener = ClientListener(self.broker, ConnectionType.STANDARD, options.tls)
        await self._listener.start(options.host, options.port)
        self.broker.identity.listen_port = self._listener.port
        _log.info("Listening for client connections on %s:%d", options.host, self._listener.port)
        if options.proxy_protocol:
            _log.info("PROXY protocol enabled for client connections")
        if options.tls is not None:
            wanted = "available" if options.tls.allow_non_tls else "required"
            _log.info("TLS %s for client connections", wanted)
            if options.tls.handshake_first and not options.tls.handshake_first_fallback_s:
                _log.warning('Clients that are not using "TLS Handshake First" option will fail to connect')

    async def stop(self) -> None:
        """Close every connection and listener; further calls wait for the same end."""
        await asyncio.shield(self.request_stop())

    def request_stop(self) -> asyncio.Task[None]:
        """Begin to stop, for callers that cannot wait."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        # Of a start that failed, the reason is the last line.
        level = logging.DEBUG if self._failed_to_start else logging.INFO
        _log.log(level, "Initiating Shutdown...")
        if self._lame_duck is not None:
            self._lame_duck.cancel()
        self.events.stop()
        await self._stop_listening()
        await self._stop_arrow()
        self.jetstream.stop()  # first, so that clients still get the acknowledgements of what it made durable
        await self.broker.close_all(CloseReason.SERVER_SHUTDOWN, _SHUTDOWN_GRACE_S)
        if self._monitor is not None:
            await self._monitor.stop()
        if self.otel is not None:
            await self.otel.stop()
            self.otel = None
        self._watch_no_more()
        _log.log(level, "Server Exiting..")
        self._stopped.set()

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        if self._websocket is not None:
            await self._websocket.close()
        if self._leafs is not None:
            await self._leafs.close()

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    @property
    def reloads(self) -> Reloads:
        """Return what reads the configuration again; it is imported when somebody asks for that."""
        if self._reloads is None:
            from millstream.server.reload import Reloads

            self._reloads = Reloads(self)
        return self._reloads

    @property
    def stopping(self) -> bool:
        """Return True if the server was told to stop."""
        return self._stopping is not None

    def renew_certificates(self) -> None:
        """Use the certificates of the current options for new connections."""
        broker = self.options.broker
        if broker.tls is not None and self._listener is not None:
            self._listener.replace_context(broker.tls)
        if self._websocket is not None and broker.websocket is not None and broker.websocket.tls is not None:
            self._websocket.replace_context(broker.websocket.tls)

        leaf = broker.leaf
        if self._leafs is not None and leaf is not None and leaf.tls is not None:
            self._leafs.replace_context(leaf.tls)

    def reload_links(self) -> None:
        """Make and end leaf links as the current options want it."""
        self.broker.reload_links(self.options.broker.leaf or LeafOptions())

    # -- lame duck --------------------------------------------------------------------------------

    def enter_lame_duck(self) -> None:
        """Refuse new clients, notify the others, disconnect them one by one, then stop."""
        if self._lame_duck is None and self._stopping is None:
            self._lame_duck = asyncio.get_running_loop().create_task(self._retire())

    async def _retire(self) -> None:
        _log.info("Entering lame duck mode, stop accepting new clients")
        broker, options = self.broker, self.options.broker
        broker.lame_duck = True
        self.events.lame_duck()
        await self._stop_listening()
        await self._stop_arrow()
        self.jetstream.stop()
        listening = [each for each in broker.connections.values() if each.session.connect.protocol >= 1]
        broker.broadcast(lambda each: handshake.update_info(broker, each, lame_duck=True), listening)
        if broker.connections:
            await asyncio.sleep(options.lame_duck_grace_period_s)
            _log.info("Closing existing clients")
            await self._send_away(options.lame_duck_duration_s - options.lame_duck_grace_period_s)
        self._lame_duck = None
        await self.stop()

    async def _send_away(self, duration_s: float) -> None:
        connections = list(self.broker.connections.values())
        gap = min(max(duration_s, 1.0) / max(len(connections), 1), _MAX_CLOSE_GAP_S)
        for number, connection in enumerate(connections, start=1):
            self.broker.close(connection, CloseReason.SERVER_SHUTDOWN)
            if number < len(connections):
                await asyncio.sleep(gap * (0.5 + random.random() / 2))

    # -- as a context -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _stored_in(folder: str, options: ServerOptions) -> JetStreamOptions:
    accounts = options.jetstream.accounts or {GLOBAL_ACCOUNT: AccountJetStreamOptions()}
    return replace(options.jetstream, enabled=True, store_dir=folder, accounts=accounts)


def _reachable(host: str) -> str:
    """Return a host that clients can connect to, also for the wildcard address."""
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
