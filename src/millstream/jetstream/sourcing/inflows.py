"""The inflows of one stream: that of its mirror, or those of its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.jetstream.sourcing.inflow import Inflow
from millstream.jetstream.sourcing.origin import Asker, Origin, OriginKind, origins_of
from millstream.jetstream.sourcing.positions import Positions, StoredPosition
from millstream.jsapi.stream_types import StreamSourceInfo

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream
    from millstream.store.fs import FileSystem

_COST: Final = 16  # items of a slice that starting an inflow counts for


class Inflows:
    """The inflows of a stream; without mirror and sources there are none."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._inflows: dict[str, Inflow] = {}  # by index name, in configuration order
        self._recovered: Positions | None = None
        self._started = False

    def _origins(self) -> Iterator[Origin]:
        account = self._stream.account
        return origins_of(
            self._stream.config,
            Asker(self._stream.name, account.name, account.domain, account.subjects.forms),
        )

    # -- life -------------------------------------------------------------------------------------

    def recover(self, positions: Positions) -> None:
        """Take over the positions that the sources had before a restart."""
        self._recovered = positions

    @property
    def _positions(self) -> Positions:
        if self._recovered is None:
            self._recovered = Positions(self._stream.log)
        return self._recovered

    def start(self) -> Pieces[None]:
        """Start an inflow from each origin, in pieces."""
        self._started = True
        config = self._stream.config
        if config.mirror is None and not config.sources:
            return
        origins: list[Origin] = []
        for origin in self._origins():
            origins.append(origin)
            yield _COST
            if not self._started or self._stream.config is not config:
                return  # ``configure`` starts those of another configuration
        for _ in self._adding(origins, self._positions.take_recovered()):
            yield _COST
            if not self._started or self._stream.config is not config:
                return

    def stop(self) -> None:
        self._started = False
        for inflow in self._inflows.values():
            inflow.stop()

    def configure(self) -> None:
        """Apply a changed configuration: start new inflows and remove old ones, leave the others alone."""
        if not self._started:
            return
        origins = {origin.index_name: origin for origin in self._origins()}
        kept: dict[str, Inflow] = {}
        for name, inflow in self._inflows.items():
            if name in origins and inflow.origin.kind is origins[name].kind:
                inflow.follow(origins[name])
                kept[name] = inflow
            else:
                inflow.remove()
        self._inflows = kept
        for _ in self._adding([origin for name, origin in origins.items() if name not in kept]):
            pass
        self._inflows = {name: self._inflows[name] for name in origins}

    def _adding(
        self, origins: list[Origin], found: dict[str, StoredPosition] | None = None
    ) -> Iterator[Inflow]:
        """Start an inflow with each step."""
        sources = [origin for origin in origins if origin.kind is OriginKind.SOURCE]
        if found is None:
            found = self._positions.find(sources) if sources else {}
        for origin in origins:
            inflow = Inflow(self._stream, origin)
            self._inflows[origin.index_name] = inflow
            inflow.start(found.get(origin.index_name))
            yield inflow

    def appeared(self, name: str) -> None:
        """Retry inflows from a stream of this name, which was just created in the account."""
        for inflow in self._inflows.values():
            if inflow.origin.is_local and inflow.origin.name == name:
                inflow.appeared()

    def reconnected(self) -> None:
        """Retry inflows from elsewhere, because a link to another server is there again."""
        for inflow in self._inflows.values():
            if not inflow.origin.is_local:
                inflow.reconnected()

    # -- what survives ----------------------------------------------------------------------------

    def _current(self) -> dict[str, StoredPosition]:
        return {
            name: inflow.position()
            for name, inflow in self._inflows.items()
            if inflow.origin.kind is OriginKind.SOURCE and inflow.is_placed
        }

    def skipped(self, name: str, position: int) -> None:
        """Record that a message of a source used up a sequence and is not stored."""
        self._positions.skipped(name, position)

    def next_write(self, fs: FileSystem, folder: str) -> Callable[[], None] | None:
        """Return the write that must precede the next commit, or None."""
        if not self._inflows or not self._stream.config.sources:
            return None
        positions = self._positions
        positions.commit_begins(self._current())
        return positions.next_write(fs, folder) if positions.due() else None

    # -- what they are like -----------------------------------------------------------------------

    def mirror(self) -> StreamSourceInfo | None:
        infos = self._infos(OriginKind.MIRROR)
        return infos[0] if infos else None

    def sources(self) -> list[StreamSourceInfo]:
        return self._infos(OriginKind.SOURCE)

    def _infos(self, kind: OriginKind) -> list[StreamSourceInfo]:
        if not self._inflows:
            return []
        return [inflow.info() for inflow in self._inflows.values() if inflow.origin.kind is kind]
