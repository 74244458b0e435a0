"""Read the configuration again while the server runs (SIGHUP, or a system request).

A file that is invalid, or changes a setting that cannot change, has no effect.

Reading a file with thousands of users takes long, so ``Reloads`` does that in a thread and lets clients be
checked in slices.  Whoever asks for a reload while the file is being read gets another one afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from millstream.base import guard
from millstream.base.errors import MillstreamError
from millstream.base.reasons import CannotListen, system_reason
from millstream.base.slices import Pieces, finish
from millstream.broker import reload as broker_reload
from millstream.broker.auth import BrokerAuthenticator
from millstream.broker.options import BrokerOptions
from millstream.config.errors import ConfigError
from millstream.config.load import load
from millstream.config.options import ServerOptions
from millstream.config.reload import Area, ReloadPlan, plan_reload

if TYPE_CHECKING:
    from millstream.server.server import Server

_log = logging.getLogger("millstream.server")

Ended = Callable[[Exception | None], None]
_Prepared = tuple[ReloadPlan, BrokerAuthenticator]


def reload_configuration(server: Server) -> ReloadPlan:
    """Apply the changes of the configuration file at once.

    Raises ConfigError if that is not possible, or if a part of it failed; the other parts are then in force.
    """
    prepared = _prepare(server.options, server.broker.make_authenticator)
    finish(_apply(server, *prepared))
    server.broker.tick.flush()
    return prepared[0]


class Reloads:
    """Reloads of a server that do not hold up its clients, one at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._waiting: list[Ended] = []
        self._running = False

    def begin(self, ended: Ended) -> None:
        """Apply the changes of the configuration file; `ended` gets the error, or None."""
        self._waiting.append(ended)
        if not self._running:
            self._running = True
            self._read()

    def _read(self) -> None:
        asked, self._waiting = self._waiting, []
        broker = self._server.broker
        prepared = broker.loop.run_in_executor(
            None, partial(_prepare, self._server.options, broker.make_authenticator)
        )
        broker.turns.when_done(prepared, partial(self._apply, asked))

    def _apply(self, asked: list[Ended], prepared: asyncio.Future[_Prepared]) -> None:
        if prepared.cancelled() or self._server.stopping:
            return
        self._server.broker.turns.in_slices("reload", self._apply_in_slices(asked, prepared))

    def _apply_in_slices(self, asked: list[Ended], prepared: asyncio.Future[_Prepared]) -> Pieces[None]:
        error: Exception | None = None
        try:
            yield from _apply(self._server, *prepared.result())
        except Exception as caught:
            error = caught
        for ended in asked:
            guard.alone("ending a reload", ended, error)
        self._running = bool(self._waiting)
        if self._running:
            self._read()


def _prepare(
    options: ServerOptions, make_authenticator: Callable[[BrokerOptions], BrokerAuthenticator]
) -> _Prepared:
    """Read the file and return what to do.  Safe to call in any thread."""
    if not options.config_file:
        raise ConfigError("can only reload config when a file is provided using -c or --config")
    plan = plan_reload(options, load(options.config_file, options.overrides))
    return plan, make_authenticator(plan.options.broker)


def _apply(server: Server, plan: ReloadPlan, authenticator: BrokerAuthenticator) -> Pieces[None]:
    yield from broker_reload.apply_in_slices(server.broker, plan.options.broker, authenticator)
    server.options = plan.options
    server.configured_ns = time.time_ns()
    problems: list[str] = []
    if Area.TLS in plan.areas:
        problems += yield from _try("certificates", server.renew_certificates)
    if Area.LEAF in plan.areas:
        problems += yield from _try("leaf links", server.reload_links)
    if server.broker.leafs is not None and {Area.ACCOUNTS, Area.AUTHORIZATION} & plan.areas:
        problems += yield from _try("leaf links", server.broker.leafs.check_all)
    if server.broker.registry is not None:
        problems += yield from _try("the resolver", lambda: _reload_operator(server, plan))
    problems += yield from _try("JetStream", lambda: server.jetstream.reload(plan))
    problems += yield from _try("the Arrow endpoint", lambda: _follow_jetstream(server))
    for each in list(server.reload_listeners):
        problems += yield from _try("what follows the configuration", partial(each, plan))
    if problems:  # all else is in force
        raise ConfigError("; ".join(problems))
    for change in plan.changes:
        _log.info("Reloaded: %s", change.name.removeprefix("broker."))
    _log.info("Reloaded server configuration (%s)", plan.options.config_digest)


def _try(what: str, step: Callable[[], Pieces[None] | None]) -> Pieces[list[str]]:
    """Run one step of the plan; return the error as a text, if any.  The other steps run in any case."""
    yield 1
    try:
        pieces = step()
        if pieces is not None:
            yield from pieces
    except MillstreamError as error:
        return [f"{what}: {error}"]
    except OSError as error:
        return [f"{what}: {system_reason(error)}"]
    except Exception as error:
        guard.report(f"reloading {what}", error)
        return [f"{what}: internal error"]
    return []


def _reload_operator(server: Server, plan: ReloadPlan) -> Pieces[None] | None:
    from millstream.server.operator import reload_operator

    return reload_operator(server, plan.options.broker)


def _follow_jetstream(server: Server) -> None:
    try:
        server.follow_jetstream()
    except CannotListen as error:
        _log.error("Streams cannot be served as Arrow: %s", error)
