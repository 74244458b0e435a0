"""JetStream of one account with its API, on a disk that can be told to fail and remembers what was synced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from millstream.base.owned import Owned
from millstream.jetstream.api import AccountApi
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream.stream import Stream
from millstream.protocol import headers
from millstream.store.errors import StoreError
from millstream.store.fs import File, MemoryFileSystem
from tests.kits.fake_world import FakeWorld, Published

SECOND = 1_000_000_000
NO_SPACE = "No space left on device"


class Disk:
    """Files in memory, as a ``store.fs.FileSystem``."""

    def __init__(self) -> None:
        self.full = False  # every write fails
        self.syncs: list[str] = []  # paths of files and folders, in order
        self._files = MemoryFileSystem()

    def check(self, op: str, path: str) -> None:
        if self.full:
            raise StoreError(op, path, NO_SPACE, recoverable=True, full=True)

    def open(self, path: str, *, create: bool) -> File:
        if create:
            self.check("open", path)
        return DiskFile(self, path, self._files.open(path, create=create))

    def read_all(self, path: str) -> bytes:
        return self._files.read_all(path)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self.check("replace", path)
        self._files.replace(path, data)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(old, new)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def list(self, folder: str) -> list[str]:
        return self._files.list(folder)

    def folders(self, folder: str) -> Sequence[str]:
        return self._files.folders(folder)

    def make_folder(self, path: str, *, sync: bool = True) -> None:
        self._files.make_folder(path, sync=sync)

    def strangers(self, folder: str, owned: Owned) -> Sequence[str]:
        return self._files.strangers(folder, owned)

    def remove_ours(self, folder: str, owned: Owned) -> Sequence[str]:
        return self._files.remove_ours(folder, owned)

    def spend_reserve(self) -> bool:
        return False

    def sync_folder(self, path: str) -> None:
        self.syncs.append(path)

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        return False


class DiskFile:
    def __init__(self, disk: Disk, path: str, file: File) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def append(self, data: bytes | memoryview) -> None:
        self._disk.check("write", self._path)
        self._file.append(data)

    def sync(self) -> None:
        self._disk.syncs.append(self._path)

    def read(self, offset: int, size: int) -> bytes:
        return self._file.read(offset, size)

    def overwrite(self, offset: int, data: bytes, *, sync: bool = True) -> None:
        self._disk.check("overwrite", self._path)
        self._file.overwrite(offset, data, sync=sync)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class Site:
    """An account, its API, and short ways to use them."""

    def __init__(
        self,
        *,
        disk: Disk | None = None,
        world: FakeWorld | None = None,
        options: AccountJetStreamOptions | None = None,
        resources: Resources | None = None,
        domain: str = "",
        sync_interval_s: float | None = None,
        strict: bool = True,
        request_queue_limit: int = 10_000,
    ) -> None:
        self.disk = disk or Disk()
        self.world = world or FakeWorld()
        self.account = self.world.account(
            options, fs=self.disk, domain=domain, resources=resources, sync_interval_s=sync_interval_s
        )
        self.account.recover()
        self.api = AccountApi(
            self.account, "server", "2.15.1", strict=strict, request_queue_limit=request_queue_limit
        )
        self.api.start()

    def restarted(self, *, orderly: bool = True) -> Site:
        """Return another server on the same disk."""
        if orderly:
            self.account.stop()
        world = FakeWorld(self.world.time_ns)
        return Site(disk=self.disk, world=world, options=self.account.options)

    def ask(self, endpoint: str, body: Any = b"", headers: bytes | None = None) -> dict[str, Any]:
        """The answer to a request to the API."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.world.request(f"$JS.API.{endpoint}".encode(), text, headers)
        return json.loads(answer)  # type: ignore[no-any-return]

    def error(self, endpoint: str, body: Any = b"", headers: bytes | None = None) -> tuple[int, int, str]:
        """Status, number and text of a refusal."""
        return parts(self.ask(endpoint, body, headers)["error"])

    def create(self, name: str = "S", **config: Any) -> Stream:
        """A stream on `<name>.>`, unless it is said otherwise."""
        body = {"name": name, "subjects": [f"{name.lower()}.>"]} | config
        answer = self.ask(f"STREAM.CREATE.{name}", body)
        assert "error" not in answer, answer["error"]
        return self.account.streams[name]

    def update(self, name: str = "S", **config: Any) -> dict[str, Any]:
        return self.ask(f"STREAM.UPDATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]} | config)

    def publish(self, subject: str, payload: bytes = b"", **header: str) -> dict[str, Any]:
        """The answer to a message; `Nats_Msg_Id="1"` becomes a header."""
        answer = self.world.request(subject.encode(), payload, block(**header) if header else None)
        return json.loads(answer)  # type: ignore[no-any-return]

    def refusal(self, subject: str, payload: bytes = b"", **header: str) -> tuple[int, int, str]:
        answer = self.publish(subject, payload, **header)
        assert answer["seq"] == 0
        return parts(answer["error"])

    def state(self, name: str = "S", **request: Any) -> dict[str, Any]:
        return self.ask(f"STREAM.INFO.{name}", request)["state"]  # type: ignore[no-any-return]

    def subjects(self, name: str = "S") -> list[str]:
        """Return the subjects of all messages, in order."""
        log = self.account.streams[name].log
        found = []
        for seq in log.sequences(log.first_seq, log.last_seq):
            found.append(self.ask(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]["subject"])
        return found

    def sent(self, subject: bytes) -> list[Published]:
        return [each for each in self.world.published if each.subject == subject]


def block(**header: str) -> bytes:
    return headers.make(*((key.replace("_", "-").encode(), value.encode()) for key, value in header.items()))


def parts(error: dict[str, Any]) -> tuple[int, int, str]:
    return error["code"], error["err_code"], error["description"]
