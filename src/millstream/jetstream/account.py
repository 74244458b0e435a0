"""JetStream of one account: its streams, on disk and running."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from millstream.base import guard
from millstream.base.ids import nuid
from millstream.base.owned import few
from millstream.base.slices import Pieces, finish
from millstream.golang.time import Time
from millstream.jetstream import orderly_end, parts
from millstream.jetstream.account_usage import AccountUsage
from millstream.jetstream.advisories import Advisories
from millstream.jetstream.config.registry import StreamConfigs
from millstream.jetstream.consumer_subjects import ConsumerSubjects, SubjectForms
from millstream.jetstream.folder_places import FolderPlaces
from millstream.jetstream.folder_removal import FolderRemoval
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream import folder_listing, meta
from millstream.jetstream.stream.committer import Committer
from millstream.jetstream.stream.folder_listing import FolderListing, list_stream
from millstream.jetstream.stream.meta import STREAM_FILES
from millstream.jetstream.stream.ready_folders import ReadyFolders
from millstream.jetstream.stream.start_sync import sync_streams
from millstream.jsapi.account_types import AccountInfo
from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError, client_text
from millstream.store.fs import File, FileSystem, MemoryFileSystem, close_files

if TYPE_CHECKING:
    from millstream.jetstream.consumers.journal import Journal
    from millstream.jetstream.dedupe.files import IdFiles
    from millstream.jetstream.ports import World
    from millstream.jetstream.read.lookup import PendingCommit
    from millstream.jetstream.sourcing.positions import Positions
    from millstream.jetstream.stream.committed_log import Committing
    from millstream.jetstream.stream.staging_folder import Staging
    from millstream.jetstream.stream.stream import Stream
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")


class _Ready(msgspec.Struct):
    """Folders, configurations and files that are ready when their streams are started."""

    synced: set[str]  # folders
    metas: dict[str, meta.StreamMeta]  # by folder
    opened: dict[str, File]  # by path


class AccountJetStream:
    """All streams of an account."""

    def __init__(
        self,
        name: str,
        world: World,
        options: AccountJetStreamOptions,
        *,
        fs: FileSystem,
        folder: str,
        domain: str = "",
        sync_interval_s: float | None = None,
        resources: Resources | None = None,
        advisories: Advisories | None = None,
        forms: SubjectForms | None = None,
        start_threads: int = 1,
    ) -> None:
        self.name = name
        self.world = world
        self.options = options
        self.domain = domain
        self.subjects = ConsumerSubjects(name, domain, forms)
        self.streams: dict[str, Stream] = {}
        self.unrecovered: dict[str, str] = {}  # streams on disk that cannot be started, and why
        self.resources = resources or Resources()
        self.committer = Committer(world, self.resources, sync_interval_s)
        self.resources.accounts.append(self)
        self.advisories = advisories or Advisories(world, account=name, domain=domain)
        self.api_total = 0
        self.api_errors = 0
        self._fs = fs
        self._start_threads = start_threads
        self._memory = MemoryFileSystem()
        self._folder = folder
        self._graves = f"{folder}/deleted"  # folders of streams that are being removed
        self._staged = f"{folder}/staging"  # folders of streams that are being created or restored
        self._sync = sync_interval_s is None
        self._beginning: set[Stream] = set()  # that subscribe to their subjects
        self._ending: dict[str, Pieces[None]] = {}  # deletions under way, by the names of the streams
        self._deleting: str | None = None  # the stream of the step that runs
        self._removal = FolderRemoval(fs, world, name)
        self._ready_folders = ReadyFolders(world, fs, self._staged, self._removal.start)
        self.usage = AccountUsage(self)
        self.consumers = 0
        self._places = FolderPlaces(fs, world, self.committer, f"{folder}/streams")
        self._configs = StreamConfigs()
        self._followers: dict[Stream, None] = {}  # mirrors, and streams that have sources

    # -- streams ----------------------------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        found = self.streams.get(name)
        if found is None:
            raise ApiError(Err.STREAM_NOT_FOUND)
        return found

    def add(self, config: StreamConfig) -> Stream:
        """Create a stream from a checked configuration; it is on disk when this returns."""
        stream = self.begin(config)
        self.committer.wait(stream)
        if stream.failure is not None:
            raise stream.failure
        return stream

    def begin(self, config: StreamConfig) -> Stream:
        """Create a stream that accepts messages at once; a worker makes its folder before its first commit.

        If that fails, the stream is removed, and callbacks of ``Stream.on_outcome`` get the error.
        """
        return finish(self.begin_in_slices(config))

    def begin_in_slices(self, config: StreamConfig) -> Pieces[Stream]:
        """Create a stream like ``begin``, which subscribes to its subjects in slices."""
        if config.name in self.unrecovered:
            raise ApiError(Err.STREAM_CREATE_FAILED, err=self.unrecovered[config.name])
        created = self.world.now_ns()
        fs: FileSystem = self._memory if config.storage is StorageType.MEMORY else self._fs
        folder = f"{self._stream_folder(config.name)}/log"
        log = parts.new_log(fs, folder, first_seq=max(config.first_seq, 1))
        identity = nuid() if config.storage is StorageType.MEMORY else self._ready_folders.take()
        stream = parts.Stream(self, config, created, log, sync=self._sync, identity=identity)
        self.streams[config.name] = stream
        self._beginning.add(stream)
        self.committer.hold(stream)
        try:
            self._note(stream)
            yield from stream.start_in_slices()
            if self.streams.get(config.name) is not stream:
                raise StoreError("create", config.name, "it was deleted meanwhile")
            self.committer.release(stream)
            if not stream.in_memory:
                self.committer.create(
                    stream,
                    lambda: self._make_folder(config, _meta_of(stream, config)),
                    lambda error: self._creation_failed(stream, error),
                )
        except BaseException as error:
            self._undo_start(stream)
            if not isinstance(error, Exception):
                error = StoreError("create", config.name, "the server stops")
            stream.refuse_waiting(error)
            stream.let_go()
            raise
        finally:
            self._beginning.discard(stream)
        self._appeared(config.name)
        return stream

    def awaited(self, stream: Stream) -> PendingCommit | None:
        """Return what a request about a stream waits for, if nobody may be told of the stream yet.

        A new stream waits for its first commit; one whose deletion failed, until its place is durable.
        """
        if self._places.doubts(stream):
            return self._places
        return stream if stream in self._beginning or self.committer.creates(stream) else None

    def _appeared(self, name: str) -> None:
        for other in list(self._followers):
            other.inflows.appeared(name)

    def reconnected(self) -> Pieces[None]:
        """Let streams ask for what they mirror elsewhere, because a link to another server is there again."""
        for follower in list(self._followers):
            follower.inflows.reconnected()
            yield 1

    def _make_folder(self, config: StreamConfig, found: meta.StreamMeta) -> None:
        """Build the folder of a new stream in staging, then rename it; runs in a worker."""
        staging = self.stage(config, found.id)
        try:
            meta.make_folder(self._fs, staging.folder)
            meta.create(self._fs, staging.folder, found)
            staging.switch()
        except StoreError:
            with contextlib.suppress(StoreError):  # then the next start does it
                staging.remove()
            raise

    def _creation_failed(self, stream: Stream, error: Exception) -> None:
        _log.error("account %s: stream %s is not created: %s", self.name, stream.name, error)
        self._undo_start(stream)
        stream.refuse_waiting(error)
        stream.let_go()

    def configs(self) -> StreamConfigs:
        return self._configs

    def stage(self, config: StreamConfig, number: str) -> Staging:
        """Return the staging folder for a stream that is created or restored; `number` is its id."""
        folder = f"{self._staged}/{number}"
        return parts.Staging(self._fs, self._memory, folder, self._stream_folder(config.name), config)

    def build(self, config: StreamConfig, created_ns: int, log: Log, identity: str) -> Stream:
        """Return a stream that is not started."""
        return parts.Stream(self, config, created_ns, log, sync=self._sync, identity=identity)

    def take_in(self, stream: Stream) -> None:
        """Add and start a stream that is complete and on disk."""
        self.streams[stream.name] = stream
        self._note(stream)
        self._name_journal(stream)
        stream.start()
        if stream.log.uncommitted:
            self.committer.dirty(stream)
        self._appeared(stream.name)

    def set_aside(self, name: str) -> None:
        """Move a stream that could not be started out of the way of a restored one."""
        if name in self.unrecovered:
            aside = f"{self._folder}/damaged/{name}.{nuid()}"
            others = self._fs.strangers(self._stream_folder(name), STREAM_FILES)
            if others:
                raise StoreError(
                    "move",
                    self._stream_folder(name),
                    f"it holds what Millstream did not write: {few(others)}",
                )
            meta.put_away(self._fs, self._stream_folder(name), aside)
            del self.unrecovered[name]
            _log.warning("account %s: the files of stream %s were moved to %s", self.name, name, aside)

    def update(self, stream: Stream, config: StreamConfig) -> None:
        """Write the configuration, then apply it; if it cannot be applied, the old one stays."""
        finish(self.update_in_slices(stream, config))

    def update_in_slices(self, stream: Stream, config: StreamConfig) -> Pieces[None]:
        """Update a stream like ``update``: everything in one step, then its subscriptions in slices.

        The configuration is written first, so that no limit removes messages unless the disk accepted it.
        """
        before = stream.config
        self.committer.wait(stream)  # a new stream may have no folder yet
        if stream.failure is not None and stream.name not in self.streams:
            raise stream.failure
        self._write_config(stream, config)
        try:
            yield from self._apply(stream, config)
        except Exception:
            self._write_config(stream, before)
            finish(self._apply(stream, before))
            raise

    def _write_config(self, stream: Stream, config: StreamConfig) -> None:
        if not stream.in_memory:
            meta.write(self._fs, self._stream_folder(stream.name), _meta_of(stream, config))

    def _apply(self, stream: Stream, config: StreamConfig) -> Pieces[None]:
        stream.configure(config)
        self._note(stream)
        yield from stream.captures.follow(config.subjects)

    def delete(self, stream: Stream) -> None:
        """Delete a stream for good; its files are removed in the background."""
        self.finish_deletion(stream.name)
        finish(self.delete_in_slices(stream))

    def delete_in_slices(self, stream: Stream) -> Pieces[None]:
        """Delete a stream like ``delete``: consumers and subscriptions in slices, the rest in one step."""
        pieces = self._ending[stream.name] = self._delete_in_slices(stream)
        try:
            yield from pieces
        finally:
            self._ending.pop(stream.name, None)

    def is_deleting(self, name: str) -> bool:
        """Return True if the caller is part of the step that deletes a stream."""
        return self._deleting == name

    def finish_deletion(self, name: str) -> None:
        """Finish the deletion of a stream that has begun, for a request that came after it."""
        pieces = self._ending.pop(name, None)
        if pieces is not None:
            finish(pieces)

    def _delete_in_slices(self, stream: Stream) -> Pieces[None]:
        yield from stream.consumers.end()
        yield from stream.captures.follow(())
        outer, self._deleting = self._deleting, stream.name
        try:
            self._delete(stream)
        except Exception:
            finish(stream.captures.follow(stream.config.subjects))
            stream.consumers.go_on()
            raise
        finally:
            self._deleting = outer
        yield from stream.consumers.tell_ended()
        if stream not in self._beginning:  # else who makes it refuses its publishers, and lets go
            stream.let_go()

    def _delete(self, stream: Stream) -> None:
        self.committer.wait(stream)
        if self.streams.get(stream.name) is not stream:
            return  # it could not be created
        if stream.consumers.journal is not None:
            self.committer.wait(stream.consumers.journal)
        has_folder = not stream.in_memory and stream not in self._beginning
        grave = ""
        if has_folder:
            grave = f"{self._graves}/{stream.name}.{nuid()}"
            try:
                grave = self._bury(stream.name, grave)
            except StoreError:
                self._places.doubt(stream, grave)
                raise
        self._places.forget(stream)
        stream.stop()
        stream.consumers.abandon()
        del self.streams[stream.name]
        self.committer.forget(stream)
        self._unnote(stream)
        stream.close()
        stream.log.free_subjects()
        if stream.in_memory:
            self._memory.remove_ours(self._stream_folder(stream.name), STREAM_FILES)
        elif has_folder:
            self._removal.start(grave)
        stream.abandon()

    def _bury(self, name: str, grave: str) -> str:
        """Turn a stream's folder into one that is no stream, durably; return where its files are now.

        The whole folder is moved to `grave`, unless it contains files of others, which are not moved.
        """
        folder = self._stream_folder(name)
        if self._fs.strangers(folder, STREAM_FILES):
            meta.withdraw(self._fs, folder)
            return folder
        meta.put_away(self._fs, folder, grave)
        return grave

    def recover(
        self,
        unreplayed: Mapping[str, StoreError] | None = None,
        listings: Mapping[str, FolderListing] | None = None,
    ) -> None:
        """Start the streams on disk, except those that may lack content of a commit journal.

        `unreplayed` contains those by their folders, and `listings` the contents of folders that are known.
        """
        killed = not orderly_end.take(self._fs, self._folder)
        for name in self._fs.folders(self._staged):  # it did not come to its end
            self._removal.start(f"{self._staged}/{name}")
        names, graves = self._fs.folders(f"{self._folder}/streams"), self._fs.folders(self._graves)
        placed = not (names or graves) or self._sync_folder(f"{self._folder}/streams")
        for name in graves:
            self._removal.start(f"{self._graves}/{name}")
        found = {}
        for name in names:
            folder = self._stream_folder(name)
            listing = listings.get(folder) if listings else None
            if listing is None:
                listing = self._list_stream(name, folder)
            if listing is not None and meta.is_deleted(listing.names):
                self._removal.start(folder)
            elif listing is not None and listing.has_ours:
                found[folder] = listing
        ready = _Ready(set(), {}, {})
        ready.synced = sync_streams(
            self._fs,
            found,
            self._start_threads,
            killed=killed,
            opened=ready.opened,
            meanwhile=lambda: self._read_ahead(found, ready),
        )
        for folder, listing in found.items():
            name = folder.rpartition("/")[2]
            try:
                if unreplayed and folder in unreplayed:
                    raise unreplayed[folder]
                self._recover_one(name, folder, listing, ready)
            except (StoreError, ApiError) as error:
                _log.error("account %s: stream %s: %s", self.name, name, error)
                self._give_up(name, client_text(error))
            except Exception as error:  # whatever is wrong with one stream must not stop the others
                _log.exception("account %s: stream %s", self.name, name)
                self._give_up(name, f"{type(error).__name__}: {error}")
        close_files(list(ready.opened.values()))  # of streams that were given up
        if not placed:
            for stream in self.streams.values():
                self._places.doubt(stream)
        for stream in list(self.streams.values()):
            if stream.consumers.journal is not None and stream.consumers.journal.letters:
                parts.store_letters(stream)

    def _read_ahead(self, folders: Iterable[str], ready: _Ready) -> None:
        """Do what must not wait for the disk: import the parts of streams, and read configurations."""
        _ = parts.Stream, parts.open_log
        for folder in folders:
            with contextlib.suppress(Exception):  # it is told when the stream is started
                ready.metas[folder] = meta.read(self._fs, folder)

    def _list_stream(self, name: str, folder: str) -> FolderListing | None:
        """List the folder of a stream; return None if it cannot be read."""
        try:
            return list_stream(self._fs, folder)
        except StoreError as error:
            _log.error("account %s: stream %s: %s", self.name, name, error)
            self._give_up(name, client_text(error))
            return None

    def _give_up(self, name: str, reason: str) -> None:
        self.unrecovered[name] = reason
        _log.error("account %s: stream %s cannot be started: %s", self.name, name, reason)

    def _sync_folder(self, folder: str) -> bool:
        """Sync a folder that the previous server may not have synced; return False if that fails."""
        try:
            self._fs.sync_folder(folder)
        except StoreError as error:
            _log.error("account %s: %s", self.name, error)
            return False
        return True

    def _recover_one(self, name: str, folder: str, listing: FolderListing, ready: _Ready) -> None:
        found = ready.metas.pop(folder, None) or meta.read(self._fs, folder)
        synced = folder in ready.synced
        if found.config.name != name:
            raise StoreError("start", folder, f"it is of a stream {found.config.name!r}")
        if not parts.valid_name(name):
            raise StoreError("start", folder, "its name cannot be a token of a subject")
        log = self._open_log(found.config, folder, listing, ready)
        positions = self._recover_positions(found.config, log)  # before limits and consumers remove messages
        parts.discard_torn(log, sourced=positions is not None)
        stream = parts.Stream(self, found.config, int(found.created), log, sync=self._sync, identity=found.id)
        stream.ids.load(listing.ids)
        parts.restore(stream)
        if listing.consumers:
            stream.consumers.recover(self.open_consumer_journal(stream, synced=synced))
        if positions is not None:
            stream.inflows.recover(positions)
        self.streams[name] = stream
        self._note(stream)
        try:
            stream.start()
        except Exception:
            self._undo_start(stream)
            raise
        if stream.log.uncommitted:
            self.committer.dirty(stream)

    def _recover_positions(self, config: StreamConfig, log: Log) -> Positions | None:
        """Find the positions of a stream's sources; return None if it has none."""
        if not config.sources:
            return None
        positions = parts.Positions(log)
        origins = parts.origins_of(config, parts.Asker(config.name, self.name, self.domain))
        folder = self._stream_folder(config.name)
        positions.recover(self._fs, folder, origins, first_seq=max(config.first_seq, 1))
        return positions

    def _undo_start(self, stream: Stream) -> None:
        """Undo the start of a stream that failed: remove its subscriptions, timers and counts."""
        for stop in (stream.stop, stream.consumers.stop):
            with contextlib.suppress(Exception):  # the reason why it did not start is what counts
                stop()
        self.committer.forget(stream)
        if self.streams.get(stream.name) is stream:  # otherwise it was deleted
            del self.streams[stream.name]
            self._unnote(stream)
            stream.close()

    def _open_log(self, config: StreamConfig, folder: str, listing: FolderListing, ready: _Ready) -> Log:
        log = parts.open_log(
            self._fs,
            f"{folder}/{folder_listing.LOG}",
            names=listing.log,
            first_seq=max(config.first_seq, 1),
            synced=folder in ready.synced,
            refills=config.mirror is not None,
            opened=ready.opened,
        )
        log.mark_ends(config.mirror is not None or bool(config.sources))
        return log

    def _stream_folder(self, name: str) -> str:
        return f"{self._folder}/streams/{name}"

    def _journal_folder(self, name: str) -> str:
        return f"{self._stream_folder(name)}/consumers"

    def open_consumer_journal(self, stream: Stream, *, synced: bool = False) -> Journal:
        """Open the journal of a stream's consumers; `synced`: its content is durable."""
        journal = self.open_journal(self._journal_folder(stream.name), synced=synced)
        journal.journal_key = self.journal_key(stream.name, "consumers", stream.identity)
        return journal

    def open_ids(self, name: str, identity: str) -> IdFiles:
        """Return the files with the ids of a stream's duplicate window."""
        return parts.IdFiles(self._fs, f"{self._stream_folder(name)}/ids", identity)

    def open_journal(self, folder: str, *, synced: bool = False) -> Journal:
        return parts.Journal(self._fs, folder, self.committer, self.world, sync=self._sync, synced=synced)

    def _name_journal(self, stream: Stream) -> None:
        if stream.consumers.journal is not None:
            stream.consumers.journal.journal_key = self.journal_key(stream.name, "consumers", stream.identity)

    def journal_key(self, stream: str, log: str, identity: str) -> bytes:
        """Return the name of a stream's log in the commit journal (``store.commit_journal``)."""
        return f"{self.name}/streams/{stream}/{log}\0{identity}".encode()

    def before_commit(self, stream: Stream) -> Callable[[], None] | None:
        """Return the write that must precede the next commit of a stream, or None."""
        if stream.in_memory:
            return None
        return stream.inflows.next_write(self._fs, self._stream_folder(stream.name))

    def stop(self, *, server_stops: bool = False) -> None:
        """Stop all streams and make everything durable.

        `server_stops`: logs that depend on the commit journal are synced together when it is closed.
        """
        self.committer.leaves_to_journal = server_stops
        finish(self.stop_in_slices())

    def stop_in_slices(self) -> Pieces[None]:
        """Stop one stream after the other, so that other accounts have their turn."""
        self.committer.stopping = True
        is_synced = not (self.unrecovered or self._places.in_doubt)
        for stream in self.streams.values():  # before the letters themselves are durable
            if stream.consumers.journal is not None and stream.consumers.journal.letters:
                self._flush(stream, f"stream {stream.name}")
                self._flush(stream.consumers.journal, f"consumers of stream {stream.name}")
        for stream in list(self.streams.values()):
            if self.streams.get(stream.name) is stream:
                is_synced = self._stop_one(stream) and is_synced
                yield 1
        self.committer.stop()
        self._ready_folders.stop()
        self._removal.stop()
        if is_synced:
            orderly_end.leave(self._fs, self._folder)

    def _stop_one(self, stream: Stream) -> bool:
        """Stop a stream and make everything of it durable; return False if that is not possible."""
        name = stream.name
        guard.alone(f"stopping stream {name}", stream.stop)
        flushed, kept = self._flush(stream, f"stream {name}"), False
        if self.streams.get(name) is not stream:
            return True  # its creation was under way, and failed
        try:
            stream.consumers.stop(records=flushed)
            kept = True
        except StoreError as error:
            _log.error("consumers of stream %s: %s", name, error)
        except Exception as error:
            guard.report(f"stopping the consumers of stream {name}", error)
        guard.alone(f"stopping stream {name}", self.committer.forget, stream)
        if flushed:
            guard.alone(f"keeping the ids of stream {name}", stream.ids.keep)
        guard.alone(f"closing stream {name}", stream.close)
        return flushed and kept

    def _flush(self, committing: Committing, name: str) -> bool:
        """Make everything durable; log why and return False if that is not possible."""
        try:
            self.committer.flush(committing)
        except StoreError as error:
            _log.error("%s: %s", name, error)
            return False
        except Exception as error:
            guard.report(f"the last commit of {name}", error)
            return False
        return True

    def reconfigure(self, options: AccountJetStreamOptions) -> None:
        """Apply other limits to messages stored from now on."""
        self.options = options
        for stream in self.streams.values():
            guard.alone(f"configuring stream {stream.name}", stream.configure, stream.config)

    def report_failure(self, stream: Stream, error: StoreError) -> None:
        """Report that a disk no longer accepts writes."""
        self.advisories.out_of_storage(stream.name)

    # -- what it has ------------------------------------------------------------------------------

    def _note(self, stream: Stream) -> None:
        """Record a new stream or a changed configuration."""
        config = stream.config
        self.usage.count(stream)
        self._configs.put(config)
        if config.mirror is not None or config.sources:
            self._followers[stream] = None
        else:
            self._followers.pop(stream, None)

    def _unnote(self, stream: Stream) -> None:
        self.usage.discount(stream)
        self._configs.discard(stream.name)
        self._followers.pop(stream, None)

    def info(self) -> AccountInfo:
        """Return usage and limits; those of a tier stand under its name."""
        return self.usage.info()


def _meta_of(stream: Stream, config: StreamConfig) -> meta.StreamMeta:
    return meta.StreamMeta(config=config, created=Time(stream.created_ns), id=stream.identity)
