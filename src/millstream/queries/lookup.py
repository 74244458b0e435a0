"""Find the stream that a name in a query means: the same name, or the only one that differs in case."""

from typing import Final

from millstream.queries.relations import RelationName
from millstream.tables.errors import NotAllowed, StreamMissing
from millstream.tables.source import TableSource


class StreamLookup:
    """Finds streams on a server, and remembers names that are none."""

    def __init__(self, source: TableSource) -> None:
        self._source: Final = source
        self.missing: list[RelationName] = []

    def __call__(self, name: RelationName) -> str | None:
        """Return the stream of a relation, or None; raise StreamAccessError if the server cannot be asked."""
        stream = name.stream
        if not stream:
            return None
        try:
            return self._source.facts(stream).name
        except StreamMissing:
            pass
        try:
            near = [each for each in self._source.names() if each.lower() == stream.lower()]
        except NotAllowed:
            near = []
        if len(near) == 1:
            return near[0]
        self.missing.append(name)
        return None

    def complaint(self) -> StreamMissing | None:
        """Return the error for the names that were not found; None if all were."""
        if not self.missing:
            return None
        name = self.missing[0]
        what = f"bucket {name.name}" if name.schema == "kv" else f"stream {name.name}"
        return StreamMissing(f"there is no {what} on {self._source.connection}; create it, or check the name")
