"""A backup of one stream on disk, in the format of the `nats` command line.

    <folder>/backup.json       {"config": …, "state": …, "millstream": {…}}
    <folder>/stream.tar.s2     the archive, as the server sent it

The part "millstream" is ours and ignored by others: size and SHA-256 of the archive, and the digest of the
messages (``archive``).  A folder written by the `nats` command line does not have it; then the content of the
archive is compared with the state that the server reported.

A backup is written to ``.<name>.partial`` beside its place, synced, and renamed when it is complete.  A
folder under the final name is therefore complete, and the next backup removes what a crash leaves.  A backup
that is replaced is called ``.<name>.old`` for a moment; if a crash leaves nothing else, it is used.

Only a backup is ever replaced: a folder with a valid ``backup.json`` and nothing but these two files.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from millstream.base.owned import Owned, few
from millstream.transfer.answers import is_name, shown
from millstream.transfer.archive import ArchiveReading, ArchiveSummary, BadArchive
from millstream.transfer.errors import BadBackup, TransferError

META: Final = "backup.json"
ARCHIVE: Final = "stream.tar.s2"
_OURS: Final = "millstream"
_PARTIAL: Final = ".partial"
_OLD: Final = ".old"
_FILES: Final = Owned(r"backup\.json|stream\.tar\.s2")
_READ_AT_ONCE: Final = 256 * 1024
_SYNC_EVERY: Final = 64 * 1024 * 1024  # bytes; so that the last sync has little left to do
_STATE: Final = ("messages", "bytes", "first_seq", "last_seq", "first_ts", "last_ts")


@dataclass(frozen=True, slots=True)
class Backup:
    """An existing backup; `seal` is our part of its metadata, empty if others wrote it."""

    path: Path
    config: dict[str, Any]
    state: dict[str, Any]
    seal: dict[str, Any]

    @property
    def stream(self) -> str:
        return str(self.config["name"])

    @property
    def archive(self) -> Path:
        return self.path / ARCHIVE

    def chunks(self, size: int) -> Iterator[bytes]:
        with self.archive.open("rb") as file:
            while chunk := file.read(size):
                yield chunk

    def check(self) -> ArchiveSummary:
        """Read all of it; raise BadBackup if anything differs from what was written."""
        reading, sum_ = ArchiveReading(), hashlib.sha256()
        size = 0
        try:
            for chunk in self.chunks(_READ_AT_ONCE):
                sum_.update(chunk)
                size += len(chunk)
                reading.feed(chunk)
            summary = reading.finish()
        except BadArchive as error:
            raise BadBackup(self.archive, f"the archive is damaged: {error}") from error
        except OSError as error:
            raise BadBackup(self.archive, str(error)) from error
        self._compare(summary, size, sum_.hexdigest())
        return summary

    def _compare(self, summary: ArchiveSummary, size: int, sha256: str) -> None:
        if self.seal:
            if size != self.seal.get("archive_bytes"):
                raise BadBackup(
                    self.archive, f"it has {size} bytes, but {self.seal.get('archive_bytes')} were written"
                )
            if sha256 != self.seal.get("archive_sha256"):
                raise BadBackup(self.archive, "its checksum is not the one that it was written with")
        if summary.older_form:
            return
        for name in _STATE:
            if name in self.state and summary.state.get(name) != self.state[name]:
                raise BadBackup(
                    self.path,
                    f"{META} and {ARCHIVE} are not of the same backup: "
                    f"{name} is {self.state[name]} and {summary.state.get(name)}",
                )
        if summary.messages != summary.state.get("messages"):
            raise BadBackup(
                self.archive, f"it has {summary.messages} of {summary.state.get('messages')} messages"
            )
        if self.seal and summary.digest != self.seal.get("digest"):
            raise BadBackup(self.archive, "its messages are not those that were written")


def open_backup(path: Path) -> Backup:
    """Open the backup in the folder `path`; raise BadBackup if there is none."""
    meta = path / META
    try:
        found = json.loads(meta.read_bytes())
    except FileNotFoundError:
        raise BadBackup(path, f"there is no backup here ({META} is missing)") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadBackup(meta, f"can not be read: {error}") from error
    config = found.get("config") if isinstance(found, dict) else None
    if not isinstance(config, dict) or not config.get("name") or not isinstance(found.get("state"), dict):
        raise BadBackup(meta, "it does not say which stream this is")
    if not is_name(config["name"]):
        raise BadBackup(meta, f"no stream can have the name '{shown(config['name'])}'")
    if not (path / ARCHIVE).is_file():
        raise BadBackup(path, f"{ARCHIVE} is missing")
    seal = found.get(_OURS)
    return Backup(path, config, found["state"], seal if isinstance(seal, dict) else {})


def find_backups(path: Path) -> list[Backup]:
    """Return the backup at `path`, or the backups in its folders."""
    if (path / META).exists():
        return [open_backup(path)]
    if not path.exists() and (_replaced(path) / META).exists():
        return [open_backup(_replaced(path))]
    if not path.is_dir():
        raise BadBackup(path, "there is no such folder")
    found = [open_backup(each) for each in sorted(path.iterdir()) if _counts(each)]
    if not found:
        raise BadBackup(path, "there is no backup here")
    return found


def _counts(path: Path) -> bool:
    """Return True for a backup that is neither unfinished nor replaced by another."""
    if not (path / META).exists():
        return False
    name = path.name
    if name.startswith("."):
        if name.endswith(_PARTIAL):
            return False
        if name.endswith(_OLD):
            return not (path.parent / name[1 : -len(_OLD)]).exists()
    return True


def _replaced(path: Path) -> Path:
    """Return where the backup at `path` is while another replaces it."""
    return path.parent / f".{path.name}{_OLD}"


class BackupWriter:
    """Writes one backup; nothing is at its place before ``commit`` returns.

    Use with ``with``: leaving without a commit leaves nothing.
    """

    def __init__(self, path: Path, *, replace: bool = False) -> None:
        self.path = path
        self.size = 0
        self._replace = replace
        self._partial = path.parent / f".{path.name}{_PARTIAL}"
        self._sum = hashlib.sha256()
        self._synced = 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._check_replaceable()
            self._partial.mkdir(mode=0o700, exist_ok=True)
            self._file = open(self._partial / ARCHIVE, "ab", opener=_no_link)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._file_is_ours():
                raise BlockingIOError
            if not self.path.exists() and (_replaced(self.path) / META).exists():
                _replaced(self.path).rename(self.path)  # a crash interrupted the replacement
            self._file.truncate(0)  # remains of a crash
        except BlockingIOError:
            self._close()
            raise TransferError(f"{self.path}: another backup is being written here") from None
        except OSError as error:
            self._close()
            raise TransferError(f"{self.path}: {error}") from error
        if self.path.exists() and not self._replace:
            self._leave()
            raise TransferError(f"{self.path}: there is a backup already; --force replaces it")
        return self

    def _check_replaceable(self) -> None:
        """Raise TransferError if something in the way is not provably a backup."""
        for path in (self._partial, _replaced(self.path), self.path):
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise TransferError(f"{path}: it is no folder, and is left alone")
            others = _FILES.strangers(path) if path.exists() else []
            if others and (path != self.path or self._replace):
                raise TransferError(f"{path}: it holds what no backup has, and is left alone: {few(others)}")
        if self._replace and self.path.exists() and any(self.path.iterdir()):
            open_backup(self.path)

    def _file_is_ours(self) -> bool:
        """Return False if the file became part of another backup before we had the lock."""
        assert self._file is not None
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), (self._partial / ARCHIVE).stat())
        except FileNotFoundError:
            return False

    def write(self, chunk: bytes) -> None:
        assert self._file is not None
        self._sum.update(chunk)
        self.size += len(chunk)
        with self._telling():
            self._file.write(chunk)
            if self.size - self._synced >= _SYNC_EVERY:
                self._sync()

    def commit(
        self, config: dict[str, Any], state: dict[str, Any], summary: ArchiveSummary, **notes: Any
    ) -> Backup:
        """Turn what was written into a backup."""
        seal = {
            "form": 1,
            "archive_bytes": self.size,
            "archive_sha256": self._sum.hexdigest(),
            "digest": summary.digest,
            "messages": summary.messages,
            "consumers": sorted(summary.consumers),
            **notes,
        }
        meta = {"config": config, "state": state, _OURS: seal}
        with self._telling():
            self._sync()
            with (self._partial / META).open("w") as file:
                json.dump(meta, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(self._partial)
            self._put_in_place()
        return Backup(self.path, config, state, seal)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Convert OSError to TransferError: a full disk fails this backup, not those of other streams."""
        try:
            yield
        except OSError as error:
            raise TransferError(f"{self.path}: {error.strerror or error}") from error

    def _put_in_place(self) -> None:
        old = _replaced(self.path)
        if self.path.exists():
            _FILES.remove(old)
            self.path.rename(old)
        self._partial.rename(self.path)
        _sync_folder(self.path.parent)
        if old.exists():
            old.rename(self._partial)  # removed with unfinished files, so that no part of it is found

    def _sync(self) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = self.size

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        with suppress(OSError):
            _FILES.remove(self._partial)  # the new backup has been renamed by now
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # closing flushes what could not be written before
                self._file.close()


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _sync_folder(path: Path) -> None:
    """Sync a folder: only then does a new name in it survive a power loss."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
