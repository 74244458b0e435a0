"""JetStream as a whole: the store directory, and one ``AccountJetStream`` for each account with JetStream."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.base.budget import BUDGET
from millstream.base.slices import Pieces
from millstream.jetstream import store_folder
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.advisories import Advisories
from millstream.jetstream.api import AccountApi, DisabledApi
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamOptions
from millstream.jetstream.resources import Resources, most_ids_in_memory
from millstream.jetstream.stream import meta
from millstream.jetstream.system_api import SystemApi
from millstream.jsapi.enums import StorageType
from millstream.store import commit_journal
from millstream.store.errors import StoreError
from millstream.store.fs import FolderLock, RealFileSystem
from millstream.store.reserve import Reserve

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, World
    from millstream.jetstream.stream.folder_listing import FolderListing
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_START_THREADS: Final = 8  # that wait for the disk while streams are synced at the start
_REST: Final = "dropping unused tables"
_RESERVE_S: Final = 60.0  # between looks whether it is there


class Engine:
    """Opens the store, starts every stream, and stops them all."""

    def __init__(
        self,
        options: JetStreamOptions,
        make_world: Callable[[str], World],
        *,
        server_name: str,
        server_id: str,
        server_version: str,
        system_account: str = "",
        max_pending: int = 64 * 1024 * 1024,
    ) -> None:
        self.options = options
        self.accounts: dict[str, AccountJetStream] = {}
        self.folder = os.path.join(options.store_dir or store_folder.default_folder(), "jetstream")
        self._make_world = make_world
        self.server_name = server_name
        self.server_id = server_id
        self.resources = Resources()  # filled at the start, when the disk is known
        self._max_pending = max_pending  # bytes that a connection may have to read
        self._server_version = server_version
        self._system_account = system_account
        self._lock: FolderLock | None = None
        self._apis: dict[str, AccountApi | DisabledApi | SystemApi] = {}  # by account
        self._reserve = Reserve(os.path.join(self.folder, store_folder.RESERVE))
        self._fs = RealFileSystem(self._reserve)
        self._system: World | None = None
        self._reserve_timer: Cancel | None = None
        self.next_journal = 1  # the number of the next commit journal
        self._listings: dict[str, FolderListing] = {}  # of folders of streams, until these are started
        self._unreplayed: dict[str, StoreError] = {}  # by folder: streams that may miss what journals have
        self._room = 0  # bytes that streams on disk may have, unless the options say how many

    @property
    def max_memory(self) -> int:
        if self.options.max_memory is not None:
            return self.options.max_memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4

    @property
    def max_file(self) -> int:
        return self._room if self.options.max_file is None else self.options.max_file

    def start(self) -> None:
        """Open the store and start; raise StoreError if the directory is unusable, not ours, or in use."""
        BUDGET.set(self.options.memory_budget)
        # The lock of an earlier server: nobody changes the folder while it is looked at.
        self._lock = FolderLock.existing(self.folder)
        try:
            claimed = store_folder.claim_and_list(self.options.store_dir)
        except StoreError:
            self._release()
            raise
        self._listings = claimed.listings if self._lock is not None else {}
        self._lock = self._lock or FolderLock(self.folder)
        _log.info("Starting JetStream")
        _log.info("  Store Directory: %r", self.folder)
        disk = os.statvfs(self.folder)
        self._room = disk.f_bavail * disk.f_frsize * 3 // 4
        self.resources = Resources(
            max_memory=self.max_memory,
            max_store=self.max_file,
            limits=self.options.limits,
            max_buffered_messages=self.options.max_buffered_messages,
            max_buffered_size=self.options.max_buffered_size,
            max_pending=self._max_pending,
            erase_within_s=self.options.erase_within_s,
        )
        if self._system_account:
            self._system = self._make_world(self._system_account)
            self._serve(self._system_account, SystemApi(self._system, self._purge))
        self._fill_reserve()
        self._replay_journals()
        for name, account_options in self.options.accounts.items():
            self._enable(name, account_options)
        self._listings = {}
        # What is stored already takes no free space: a full disk must not forbid what is there.
        self._room += self.resources.used(StorageType.FILE)
        self.resources.max_store = self.max_file
        self._keep_reserve()

    def _replay_journals(self) -> None:
        """Restore the content of commit journals to the streams, before they are opened."""

        def is_there(log: str, identity: str) -> bool:
            return meta.identity(self._fs, os.path.dirname(log)) == identity

        there = commit_journal.journals(self._fs, self.folder)
        if not there and store_folder.is_journaled(self.folder):
            _log.error(
                "%s had a commit journal, which is not there: if power went while the last server ran,"
                " messages of its last seconds may be missing",
                self.folder,
            )
        self.next_journal = max(there, default=0) + 1
        replayed = commit_journal.replay(self._fs, self.folder, is_there)
        self._unreplayed = {os.path.dirname(log): error for log, error in replayed.failed.items()}
        for path in replayed.touched:  # some are new
            self._listings.pop(os.path.dirname(os.path.dirname(path)), None)
        for number in replayed.done:
            self._fs.remove(commit_journal.journal_path(self.folder, number))
        if there:
            self._fs.sync_folder(self.folder)
        self._mark_without_journals()

    def expect_journals(self) -> None:
        """Make versions without commit journals refuse the store; in any thread."""
        store_folder.mark_journaled(self.folder, journaled=True)

    def _mark_without_journals(self) -> None:
        """Let all versions use the store again, if it has no commit journal any more."""
        if not commit_journal.journals(self._fs, self.folder):
            store_folder.mark_journaled(self.folder, journaled=False)

    def _keep_reserve(self) -> None:
        """Reserve the space again that removals on a full disk used, and drop unused tables."""
        for account in self.accounts.values():
            world = account.world
            world.run_in_worker(self._fill_reserve, lambda _: None)
            world.in_slices(_REST, self._rest())
            self._reserve_timer = world.call_later(_RESERVE_S, self._keep_reserve)
            return

    def _rest(self) -> Pieces[None]:
        for account in list(self.accounts.values()):
            for name in list(account.streams):
                stream = account.streams.get(name)
                if stream is not None:
                    yield from stream.log.rest()

    def _fill_reserve(self) -> None:
        self._reserve.fill()

    def reconfigure(self, options: JetStreamOptions) -> Pieces[None]:
        """Apply other limits and accounts; everything else stays as at the start."""
        self.options = options
        self.resources.max_memory = self.max_memory
        self.resources.max_store = self.max_file
        self.resources.erase_within_s = options.erase_within_s
        BUDGET.set(options.memory_budget)
        self.resources.ids_in_memory = most_ids_in_memory()
        for name in self.accounts.keys() - options.accounts.keys():
            yield from self._disable(name)
        for name, account_options in options.accounts.items():
            yield from self.configure_account(name, account_options)

    def configure_account(self, name: str, account_options: AccountJetStreamOptions | None) -> Pieces[None]:
        """Apply the limits of one account, which may be new; None: it has no JetStream any more."""
        running = self.accounts.get(name)
        if account_options is None:
            if running is not None:
                yield from self._disable(name)
        elif running is None:
            self._enable(name, account_options)
        elif running.options != account_options:
            running.reconfigure(account_options)
        yield 1

    def _enable(self, name: str, account_options: AccountJetStreamOptions) -> None:
        world = self._make_world(name)
        account = AccountJetStream(
            name,
            world,
            account_options,
            fs=self._fs,
            folder=os.path.join(self.folder, name),
            domain=self.options.domain,
            sync_interval_s=self.options.sync_interval_s,
            resources=self.resources,
            advisories=self._advisories(name, world, self._system),
            forms=self.options.forms,
            start_threads=_START_THREADS,
        )
        self.accounts[name] = account
        account.recover(self._unreplayed, self._listings)
        self._serve(
            name,
            AccountApi(
                account,
                self.server_name,
                self._server_version,
                strict=self.options.strict,
                request_queue_limit=self.options.request_queue_limit,
                info_queue_limit=self.options.info_queue_limit,
            ),
        )

    def _disable(self, name: str) -> Pieces[None]:
        """Stop JetStream of an account; its streams stay on disk."""
        self._apis.pop(name).stop()
        account = self.accounts.pop(name)
        yield from account.stop_in_slices()
        self.resources.accounts.remove(account)

    def refuse(self, name: str) -> None:
        """Respond to an account's API requests that it has no JetStream, unless it has."""
        if name not in self._apis:
            world = self._make_world(name)
            self._serve(name, DisabledApi(world, self._advisories(name, world, None)))

    def leave_alone(self, name: str) -> None:
        """Stop answering that an account has no JetStream: another server answers its requests."""
        if isinstance(self._apis.get(name), DisabledApi):
            self._apis.pop(name).stop()

    def _purge(self, name: str) -> None:
        """Delete all streams of an account, one after the other, so that others have their turn."""
        account = self.accounts.get(name)
        doomed = list(account.streams.values()) if account is not None else []

        if doomed and self._system is not None:
            self._system.in_slices("purge of an account", _deleting(doomed))

    def _serve(self, name: str, api: AccountApi | DisabledApi | SystemApi) -> None:
        before = self._apis.pop(name, None)
        if before is not None:
            before.stop()
        self._apis[name] = api
        api.start()

    def _advisories(self, name: str, world: World, system: World | None) -> Advisories:
        return Advisories(
            world,
            account=name,
            domain=self.options.domain,
            server_name=self.server_name,
            server_id=self.server_id,
            system=system,
        )

    def stop(self, end_work: Callable[[], None] = lambda: None) -> None:
        """Make everything durable and release the store; `end_work` ends the threads that write to it."""
        for api in self._apis.values():
            guard.alone("stopping an API", api.stop)
        for account in self.accounts.values():
            guard.alone(f"stopping account {account.name}", partial(account.stop, server_stops=True))
        guard.alone("ending the work of the store", end_work)
        if self._reserve_timer is not None:
            self._reserve_timer.cancel()
        if self._lock is not None:
            guard.alone("marking the store", self._mark_without_journals)
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _deleting(streams: list[Stream]) -> Pieces[None]:
    """Delete the streams that still exist when their turn comes."""
    for stream in streams:
        if stream.account.streams.get(stream.name) is stream:
            try:
                yield from stream.account.delete_in_slices(stream)
                stream.account.advisories.stream_deleted(stream.name)
            except Exception as error:
                guard.report("deleting a stream", error)
        yield 1
