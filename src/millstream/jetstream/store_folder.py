"""The folder with all streams: prove that it is ours before anything in it is changed.

    <store_dir>/jetstream/millstream.json     {"format": "millstream store", "version": 1}

The mark is written first, into an empty folder.  While a store has commit journals it is of version 2, so
that a Millstream without journals refuses it.  A store is ours if it has the mark, contains no streams of
nats-server, and has only files where we would open files.  It is also ours if it lost the mark, for example
by a copy, contains only our files, and each stream folder has a valid ``meta.json``: then it is marked again.
Anything else makes ``claim`` raise ``ForeignStore`` and stays unchanged.  Other files in a store with a mark,
such as a core dump, are named in the log and left alone.

New streams are built in ``staging`` and renamed, so a folder in ``streams`` that is not ours is never taken
for one whose creation was interrupted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from millstream.base.owned import few
from millstream.jetstream import orderly_end
from millstream.jetstream.stream import meta
from millstream.jetstream.stream.folder_listing import FolderListing, scan_stream
from millstream.store import commit_journal, reserve
from millstream.store.errors import StoreError
from millstream.store.fs import RealFileSystem, store_error

_log = logging.getLogger("millstream.jetstream")

MARK: Final = "millstream.json"
PARTIAL: Final = "jetstream.partial"  # beside the store: an adoption that has not ended (``adoption``)
RESERVE: Final = "millstream.reserve"  # room for removals on a full disk (``store.reserve``)
VERSION: Final = 1
JOURNALED: Final = 2  # the version of a store with commit journals
_FORMAT: Final = "millstream store"
_MARK_TEXTS: Final = {
    version: json.dumps({"format": _FORMAT, "version": version}).encode() + b"\n"
    for version in (VERSION, JOURNALED)
}
_MOST_OF_A_MARK: Final = 4096

_PARTS: Final = ("streams", "staging", "deleted", "damaged")  # of an account
_NATS_SERVER_S: Final = frozenset(("meta.inf", "meta.sum", "meta.key", "msgs"))  # never in one of ours
_ROOT_FILES: Final = frozenset((MARK, f"{MARK}.new", "lock", RESERVE))
_FILE_SYSTEM_S: Final = "lost+found"


class ForeignStore(StoreError):
    """The folder is not provably a store of Millstream; nothing in it was changed."""

    def __init__(self, folder: str, reason: str, hint: str) -> None:
        super().__init__("use", folder, f"{reason}. Nothing in it was changed", hint=hint)


_ADOPT: Final = (
    "to move nats-server's streams into a new store, stop nats-server and run "
    "`millstream adopt {store} --to ./millstream`; then start Millstream with that store "
    "(`millstream serve -js -sd ./millstream`)"
)
_ELSEWHERE: Final = "move them away, or choose another store_dir (-sd)"


class _Survey(msgspec.Struct):
    """The contents found in a store."""

    marked: bool
    strangers: list[str] = []  # relative paths of what we did not write
    impostors: list[str] = msgspec.field(
        default_factory=list
    )  # those that we would open: links, folders for files
    nats_server: list[str] = []  # names of streams
    unproved: list[str] = msgspec.field(
        default_factory=list
    )  # folders of streams without a sound `meta.json`
    listings: dict[str, FolderListing] = {}  # of folders of streams, by their paths

    def add(self, entry: os.DirEntry[str], path: str) -> None:
        """Record an entry that is neither a folder of an account nor of a stream."""
        (self.impostors if entry.is_symlink() else self.strangers).append(path)


class Claimed(NamedTuple):
    """A folder for streams that is ours."""

    folder: str
    listings: dict[str, FolderListing]  # the contents of its folders of streams, by their paths


def claim(store_dir: str) -> str:
    """Return the folder for streams below `store_dir`, created and marked, as ``claim_and_list``."""
    return claim_and_list(store_dir).folder


def claim_and_list(store_dir: str) -> Claimed:
    """Create and mark the folder for streams below `store_dir`, and list its streams.

    An empty `store_dir` means a folder of this user below the temporary directory.  Raises ForeignStore if
    the folder is not ours.
    """
    above = store_dir or default_folder()
    if not store_dir:
        _make_private(above)
    _refuse_store_in_store(above)
    folder = os.path.join(above, "jetstream")
    fs = RealFileSystem()
    fs.make_folder(folder)
    try:
        marked = _version(folder) > 0
        found = _survey(folder, marked=marked)
    except OSError as error:
        raise store_error("look at", str(error.filename or folder), error) from error
    if found.nats_server:
        raise _nats_server_store(folder, above, found.nats_server)
    refused = found.impostors if marked else found.impostors + found.strangers
    if refused:
        raise ForeignStore(folder, f"it holds what Millstream did not write: {few(refused)}", _ELSEWHERE)
    if found.strangers:
        _log.warning(
            "%s holds what Millstream did not write, and leaves alone: %s", folder, few(found.strangers)
        )
    if not marked:
        if found.unproved:
            raise ForeignStore(
                folder,
                f"it has no {MARK}, and no sound meta.json proves these to be streams of Millstream: "
                f"{few(found.unproved)}",
                _ELSEWHERE,
            )
        if any(_streams(folder)):
            _log.warning(
                "%s has no %s, but contains only files of Millstream: the mark is written again", folder, MARK
            )
        has_journals = bool(commit_journal.journals(fs, folder))
        fs.replace(os.path.join(folder, MARK), _MARK_TEXTS[JOURNALED if has_journals else VERSION])
    return Claimed(folder, found.listings)


def is_journaled(folder: str) -> bool:
    """Return True if the mark of a store says that it has commit journals."""
    try:
        return _version(folder) == JOURNALED
    except OSError as error:
        raise store_error("read", os.path.join(folder, MARK), error) from error


def mark_journaled(folder: str, *, journaled: bool) -> None:
    """Record in the mark whether the store has commit journals, durably; raise StoreError if that fails."""
    if is_journaled(folder) != journaled:
        text = _MARK_TEXTS[JOURNALED if journaled else VERSION]
        RealFileSystem().replace(os.path.join(folder, MARK), text)


def prepare(store_dir: str) -> None:
    """Create and mark a new folder ahead of ``claim``, in any thread; ``claim`` reports problems."""
    if not os.path.lexists(os.path.join(store_dir or default_folder(), "jetstream", MARK)):
        with contextlib.suppress(StoreError):
            claim(store_dir)


def default_folder() -> str:
    """Return the default folder for streams: stable over restarts, and not nats-server's."""
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"millstream-{os.geteuid()}")


def _make_private(folder: str) -> None:
    """Create a private folder in a public place; raise StoreError if somebody else has created it."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise store_error("create", folder, error) from error
    about = os.lstat(folder)
    if stat.S_ISLNK(about.st_mode) or not stat.S_ISDIR(about.st_mode):
        problem = "it is not a folder"
    elif about.st_uid != os.geteuid():
        problem = "it belongs to another user"
    elif about.st_mode & 0o022:
        problem = "other users may write to it"
    else:
        return
    raise StoreError("use", folder, problem, hint="choose a store_dir (-sd)")


def _refuse_store_in_store(above: str) -> None:
    """Raise StoreError if a store would be created inside another one, whose server would find it."""
    try:
        if os.path.lexists(os.path.join(above, MARK)):
            raise StoreError(
                "use", above, "it is a store itself", hint="give the folder above it as store_dir (-sd)"
            )
        if os.path.lexists(os.path.join(above, PARTIAL, "jetstream")):
            raise StoreError(
                "use",
                above,
                "`millstream adopt` was interrupted while it wrote this store",
                hint="remove the folder and run the command again",
            )
        found = sorted(_nats_server_streams(above)) if os.path.isdir(above) else []
    except OSError as error:
        raise store_error("look at", str(error.filename or above), error) from error
    if found:
        raise _nats_server_store(above, above, found)


def _nats_server_store(folder: str, store: str, streams: list[str]) -> ForeignStore:
    reason = f"it holds stream folders of nats-server: {few(streams)}"
    return ForeignStore(folder, reason, _ADOPT.format(store=shlex.quote(store)))


def _nats_server_streams(folder: str) -> Iterator[str]:
    for account in _folders(folder):
        try:
            streams = list(_folders(os.path.join(account.path, "streams")))
        except OSError:  # any folder of any program: what cannot be read is no store
            continue
        for each in streams:
            try:
                if _is_nats_servers(os.listdir(each.path)):
                    yield each.name
            except OSError:
                continue


def _survey(folder: str, *, marked: bool) -> _Survey:
    found = _Survey(marked)
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != _FILE_SYSTEM_S:
                _survey_account(entry, found)
        elif entry.name in _ROOT_FILES or commit_journal.NAME.fullmatch(entry.name):
            if not _is_root_file(entry):
                found.impostors.append(entry.name)
        else:
            found.add(entry, entry.name)
    return found


def _survey_account(account: os.DirEntry[str], found: _Survey) -> None:
    for part in _entries(account.path):
        path = f"{account.name}/{part.name}"
        if part.name == orderly_end.NAME:
            if not _is_empty_file(part):
                found.impostors.append(path)
        elif part.name not in _PARTS:
            found.strangers.append(path)
        elif not part.is_dir(follow_symlinks=False):
            found.impostors.append(path)
        else:
            for stream in _entries(part.path):
                _survey_stream(stream, f"{path}/{stream.name}", found)


def _survey_stream(entry: os.DirEntry[str], path: str, found: _Survey) -> None:
    if not entry.is_dir(follow_symlinks=False):
        found.add(entry, path)
        return
    listing = found.listings[entry.path] = scan_stream(entry.path)
    inside = listing.strangers
    if _is_nats_servers(inside):
        found.nats_server.append(entry.name)
        return
    for inner in inside:
        (found.impostors if meta.STREAM_FILES.knows(inner) else found.strangers).append(f"{path}/{inner}")
    if not found.marked and _has_files(entry.path) and not meta.is_sound(RealFileSystem(), entry.path):
        found.unproved.append(path)


def _is_nats_servers(names: Sequence[str]) -> bool:
    """Return True if nats-server wrote the folder of a stream, by the names in it."""
    return not _NATS_SERVER_S.isdisjoint(names)


def _is_root_file(entry: os.DirEntry[str]) -> bool:
    if not entry.is_file(follow_symlinks=False):
        return False
    if entry.name == "lock":
        return _is_empty_file(entry)
    if entry.name == f"{MARK}.new":  # a crash came while it was written
        beginning = _beginning(entry.path)
        return any(text.startswith(beginning) for text in _MARK_TEXTS.values())
    if entry.name == RESERVE:
        return entry.stat(follow_symlinks=False).st_size <= reserve.SIZE and not any(_beginning(entry.path))
    if commit_journal.NAME.fullmatch(entry.name):
        return commit_journal.is_journal(_beginning(entry.path))
    return entry.name == MARK  # which is looked at by ``_version``


def _is_empty_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size == 0


def _version(folder: str) -> int:
    """Return the version in the mark of a store; 0 if there is none.  Raise OSError or ForeignStore."""
    path = os.path.join(folder, MARK)
    try:
        text = _beginning(path)
    except FileNotFoundError:
        return 0
    try:
        mark = json.loads(text)
    except (ValueError, RecursionError):
        mark = None
    if not isinstance(mark, dict) or mark.get("format") != _FORMAT or type(mark.get("version")) is not int:
        raise ForeignStore(
            folder,
            f"its {MARK} is not the mark of a store",
            "if it was damaged, move it away: a store whose streams are sound is marked again",
        )
    version: int = mark["version"]
    if version not in _MARK_TEXTS:
        raise ForeignStore(
            folder,
            f"it is a store of version {version}, and this Millstream knows up to version {JOURNALED}",
            "use the Millstream that wrote it",
        )
    return version


def _beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_MOST_OF_A_MARK)


def _streams(folder: str) -> Iterator[os.DirEntry[str]]:
    for account in _folders(folder):
        yield from _folders(os.path.join(account.path, "streams"))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as scan:
        return sorted(scan, key=lambda each: each.name)


def _folders(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scan:
            yield from (each for each in scan if each.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return


def _has_files(folder: str) -> bool:
    return any(names for _, _, names in os.walk(folder))
