"""The server as a process: logs, pid and ports files, signals, and the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.base.descriptors import raise_soft_limit
from millstream.base.errors import MillstreamError
from millstream.base.heap import keep_freed_memory
from millstream.base.reasons import system_reason
from millstream.config.options import ServerOptions
from millstream.server import logs
from millstream.server.collector import Collector, limit_pauses
from millstream.server.loop import new_event_loop
from millstream.server.server import Server
from millstream.server.supervisor import Supervisor

if TYPE_CHECKING:
    from millstream.config.reload import ReloadPlan

_log = logging.getLogger("millstream.server")

# How long a committing thread waits for the interpreter while messages are handled: Python's default of 5 ms
# would be most of the time until an ack.
_SWITCH_INTERVAL_S: Final = 0.0001


def run(options: ServerOptions) -> int:
    """Serve until a signal stops the server; return the exit code of the process.

    Raises LogError if the log cannot be opened; all other errors go to the log.
    """
    handler = logs.set_up(options.log)
    raise_soft_limit()
    gc.disable()  # until the start is done: nearly all that it makes stays
    keep_freed_memory()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_serve(options, handler))
    except MillstreamError as error:
        _log.critical("%s", error)
        return 1
    except OSError as error:
        _log.critical("%s", system_reason(error))
        return 1
    finally:
        _ignore_signals()
        loop.close()
        logs.take_down(handler)


async def _serve(options: ServerOptions, handler: logging.Handler) -> int:
    server = Server(options=options)
    server.imports_later = True
    process = options.process
    supervisor = Supervisor()
    with contextlib.ExitStack() as files:
        if process.pid_file:
            from millstream.server.process_files import pid_file

            files.enter_context(pid_file(process.pid_file))
        starting = asyncio.ensure_future(server.start())
        stop_wanted = _handle_signals(server, handler, starting, supervisor)
        try:
            await starting
        except asyncio.CancelledError:
            return 0  # by a signal
        gc.freeze()  # modules and streams stay: collections need not visit them
        limit_pauses()
        broker = server.broker
        collector = Collector(broker.turns, lambda: broker.totals.connections)
        files.callback(collector.watch())
        collector.start()
        if stop_wanted.is_set():
            server.request_stop()
        if process.ports_file_dir:
            from millstream.server.process_files import ports_file

            files.enter_context(ports_file(server, process.ports_file_dir))
        supervisor.ready(f"listens for clients at {server.client_url}", broker.turns)
        await server.wait_stopped()
    return 0


def _handle_signals(
    server: Server, handler: logging.Handler, starting: asyncio.Future[None], supervisor: Supervisor
) -> asyncio.Event:
    """Install the signal handlers; return an event that is set when a signal ends the server."""
    loop = asyncio.get_running_loop()
    stop_wanted = asyncio.Event()

    def stop(name: str) -> None:
        _log.info('Trapped "%s" signal', name)
        stop_wanted.set()
        supervisor.stopping()
        if starting.done():
            server.request_stop()
        else:
            starting.cancel()

    def terminate() -> None:
        if starting.done() and server.broker.lame_duck:  # lame duck mode ends by itself
            _log.info('Trapped "terminated" signal')
        else:
            stop("terminated")

    def retire() -> None:
        _log.info('Trapped "user defined signal 2" signal')
        if starting.done():
            supervisor.stopping()
            server.enter_lame_duck()

    def reopen() -> None:
        _log.info('Trapped "user defined signal 1" signal')
        logs.reopen(handler)

    def reload() -> None:
        _log.info('Trapped "hangup" signal')
        if not starting.done():
            return  # the start reads the file anyway
        supervisor.reloading()
        server.reloads.begin(reloaded)

    def reloaded(error: Exception | None) -> None:
        supervisor.reloaded()
        if isinstance(error, MillstreamError):
            _log.error("Failed to reload server configuration: %s", error)
        elif error is not None:
            guard.report("reloading the server configuration", error)

    def change_logs(plan: ReloadPlan) -> None:
        nonlocal handler
        from millstream.config.reload import Area

        if Area.LOG in plan.areas or Area.TRACE in plan.areas:
            try:
                old, handler = handler, logs.set_up(plan.options.log)
            except logs.LogError as error:  # the other changes are already in force
                _log.error("%s: logging goes on as before", error)
            else:
                logs.take_down(old)

    server.reload_listeners.append(change_logs)
    loop.add_signal_handler(signal.SIGINT, stop, "interrupt")
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(signal.SIGHUP, reload)
    loop.add_signal_handler(signal.SIGUSR1, reopen)
    loop.add_signal_handler(signal.SIGUSR2, retire)
    return stop_wanted


def _ignore_signals() -> None:
    """Ignore signals during the end, so that another Ctrl-C causes no traceback."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        asyncio.get_event_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
