"""Run JetStream as a part of the server: it starts before clients connect and stops after the last answer.

Binds the engine to the broker's accounts, follows a reload of the configuration, and shows it to monitoring.
The engine is imported when JetStream is enabled, so a server without it starts faster.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from millstream.base.clock import SystemClock
from millstream.base.slices import Pieces, finish
from millstream.broker import account_changes
from millstream.broker.info import SERVER_VERSION
from millstream.broker.options import ExportKind, Import, MapDestination, SubjectMapping
from millstream.jsapi.names import API_ALL, domain_mappings

if TYPE_CHECKING:
    from millstream.config.reload import ReloadPlan
    from millstream.jetstream.engine import Engine
    from millstream.jetstream.options import AccountJetStreamOptions, JetStreamOptions
    from millstream.server.jetstream_view import EngineView
    from millstream.server.jetstream_world import AccountWorld
    from millstream.server.server import Server
    from millstream.server.workers import Workers

_COMMITTING_THREADS: Final = 4  # one sync at a time is in flight per stream; more streams share these


class JetStreamService:
    """Runs from the server's start to its end, whether JetStream is enabled meanwhile or not."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._clock = SystemClock()
        self._workers: Workers | None = None
        self.engine: Engine | None = None
        self._view: EngineView | None = None

    @property
    def view(self) -> EngineView | None:
        """Return JetStream's view for monitoring, or None while it is disabled."""
        if self._view is None and self.engine is not None:
            from millstream.server.jetstream_view import EngineView

            self._view = EngineView(self.engine)
        return self._view

    def start(self) -> None:
        """Open the store if JetStream is configured; raise StoreError if it cannot be used."""
        options = self._server.options.jetstream
        if not options.enabled:
            return
        preparing = _prepare_folder(options.store_dir)
        from millstream.jetstream.engine import Engine
        from millstream.server.workers import Workers

        if preparing is not None:
            preparing.join()
        broker = self._server.broker
        self._workers = Workers(
            broker.loop,
            _committing_threads(options.max_concurrent_io),
            "millstream-commit",
            broker.turns.run,
            broker.tick,
        )
        self.engine = Engine(
            self._with_claimed(options),
            self._make_world,
            server_name=broker.identity.server_name,
            server_id=broker.identity.server_id,
            server_version=SERVER_VERSION,
            system_account=broker.options.system_account,
            max_pending=broker.options.max_pending,
        )
        self._map_domain(options)
        try:
            self.engine.start()
        except BaseException:
            self.stop()
            raise
        resources = self.engine.resources
        self._workers.use_journal(
            self.engine.folder,
            self.engine.next_journal,
            lambda: resources.erase_within_s,
            self.engine.expect_journals,
        )
        finish(self._refuse_others(self.engine))
        broker.identity.jetstream_domain = options.domain

    def stop(self) -> None:
        """Make everything durable and close the store."""
        self._view = None
        self._server.broker.identity.jetstream_domain = None
        if self.engine is not None:
            self.engine.stop(self._end_work)
            self.engine = None
        self._end_work()

    def _end_work(self) -> None:
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None

    def _make_world(self, account: str) -> AccountWorld:
        from millstream.server.jetstream_world import AccountWorld

        broker = self._server.broker
        assert self._workers is not None
        return AccountWorld(broker, broker.accounts[account], self._clock, self._workers, self._server.spans)

    def _refuse_others(self, engine: Engine, names: list[str] | None = None) -> Pieces[None]:
        """Refuse requests of accounts without JetStream, unless they import the API of another account."""
        broker = self._server.broker
        for name in list(broker.accounts) if names is None else names:
            yield 1
            account = broker.accounts.get(name)
            if account is None or name == broker.options.system_account:
                continue
            if any(_is_whole_api(each) for each in account.configured.imports):
                engine.leave_alone(name)
            else:
                engine.refuse(name)

    def _map_domain(self, options: JetStreamOptions) -> None:
        """Map the API subjects with the domain to those without."""
        broker = self._server.broker
        mappings = _domain_mappings(options.domain) if options.domain else ()
        names = broker.accounts.keys() - {broker.options.system_account}
        built_in = dict.fromkeys(names | options.accounts.keys(), mappings)
        before, broker.built_in_mappings = broker.built_in_mappings, built_in
        for name in (before.keys() | built_in.keys()) & broker.accounts.keys():
            if before.get(name) != built_in.get(name):
                account_changes.put(broker, broker.accounts[name].configured)

    def _with_claimed(self, options: JetStreamOptions) -> JetStreamOptions:
        """Return the options with the accounts that tokens describe."""
        registry = self._server.broker.registry
        if registry is None:
            return options
        from millstream.server.operator import jetstream_of

        limits = {name: jetstream_of(account) for name, account in registry.accounts.items()}
        return replace(options, accounts={name: each for name, each in limits.items() if each is not None})

    def follow_account(self, name: str, limits: AccountJetStreamOptions | None) -> None:
        """Give one account other limits, or take JetStream away from it."""
        engine, broker = self.engine, self._server.broker
        if engine is None or name == broker.options.system_account:
            return
        if name not in broker.accounts:
            engine.leave_alone(name)
        elif engine.options.domain and name not in broker.built_in_mappings:
            broker.built_in_mappings[name] = _domain_mappings(engine.options.domain)
            broker.put_account(broker.accounts[name].configured)
        work = self._follow_account(engine, name, limits)
        if limits is None and name in engine.accounts:
            broker.turns.in_slices("JetStream of an account", work)
        else:
            finish(work)  # before a client of it asks for anything

    def _follow_account(
        self, engine: Engine, name: str, limits: AccountJetStreamOptions | None
    ) -> Pieces[None]:
        yield from engine.configure_account(name, limits)
        if limits is None:
            yield from self._refuse_others(engine, [name])

    def link_ready(self, name: str) -> None:
        """Let the streams of an account reach through a link that has just been made."""
        account = self.engine.accounts.get(name) if self.engine is not None else None
        if account is not None:
            self._server.broker.turns.in_slices("streams of other servers", account.reconnected())

    def reload(self, plan: ReloadPlan) -> Pieces[None]:
        """Apply a changed configuration."""
        from millstream.config.reload import Area

        options = plan.options.jetstream
        if Area.JETSTREAM in plan.areas and (self.engine is not None) != options.enabled:
            self.stop()
            self.start()
        elif self.engine is not None and {Area.JETSTREAM, Area.ACCOUNTS} & plan.areas:
            self._map_domain(options)
            yield from self.engine.reconfigure(self._with_claimed(options))
            yield from self._refuse_others(self.engine)


def _prepare_folder(store_dir: str) -> threading.Thread | None:
    """Make a new folder durable in a thread, while the engine is imported."""
    from millstream.jetstream import store_folder

    thread = threading.Thread(target=store_folder.prepare, args=(store_dir,), name="millstream-folder")
    try:
        thread.start()
    except RuntimeError:  # the system has no more of them: the engine does it
        return None
    return thread


def _committing_threads(operations: int) -> int:
    """Return how many threads of each kind may commit if so many disk operations may be under way.

    There are two kinds, and one thread more writes the journal.
    """
    return min(_COMMITTING_THREADS, (operations - 1) // 2)


def _domain_mappings(domain: str) -> tuple[SubjectMapping, ...]:
    return tuple(
        SubjectMapping(source=source, destinations=(MapDestination(subject=plain),))
        for source, plain in domain_mappings(domain).items()
    )


def _is_whole_api(imported: Import) -> bool:
    return imported.kind is ExportKind.SERVICE and (imported.to or imported.subject) == API_ALL
