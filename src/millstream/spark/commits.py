"""Report a query's progress to JetStream, after Spark has recorded it itself.

    none      nothing is reported; progress is only in the checkpoint
    consumer  a durable consumer follows the query, so every NATS tool shows its lag, and an interest stream
              keeps what the query has not read
    purge     messages that were read are removed, which drains a work queue

Reporting is a side effect after the fact.  It is called with an offset from Spark's commit log, possibly more
than once with the same one.  A failure is logged and made good by a later call; it never fails the query.
Single messages are never acknowledged.  Progress of a stream that was deleted and created again is not
reported to the new stream: its messages reuse the old sequences and have not been read.

A durable belongs to one query.  The query claims it with a name that is in its offsets, hence in its
checkpoint; a consumer that carries another query's name is refused.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from millstream.base.ids import nuid
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, LinkError, NoResponders, RequestTimeout
from millstream.spark.offsets import Offset, Position
from millstream.spark.options import SourceOptions
from millstream.tables.connections import RequestConnection, explained
from millstream.tables.errors import OptionError
from millstream.tables.streams import StreamFacts

logger: Final = logging.getLogger("millstream.spark")

OWNER: Final = "millstream.spark.query"  # key in the metadata of a durable
_FIRST_PAUSE_S: Final = 1.0  # before the same thing is told again: an idle query would do it all the time
_LONGEST_PAUSE_S: Final = 60.0


@dataclass(slots=True)
class _Failure:
    """Progress that could not be reported."""

    at: Position
    pause_s: float
    again_at: float


class Commits:
    """Reports the progress of one streaming query, from the process that plans it."""

    def __init__(self, options: SourceOptions, server: RequestConnection) -> None:
        self._options = options
        self._server = server
        self._told: dict[str, Position] = {}
        self._failed: dict[str, _Failure] = {}
        self._begun: set[tuple[str, str]] = set()  # names and ids of streams
        self._claimed: set[str] = set()
        self._checked: set[str] = set()

    def new_query_name(self) -> str | None:
        """Return a name for the offsets of a new query, or None if no consumer is claimed."""
        return nuid() if self._options.commit_mode == "consumer" else None

    def check(self, streams: Mapping[str, StreamFacts]) -> None:
        """Refuse a mode that would lose messages, before anything is read; checks each stream once."""
        options = self._options
        for name, facts in streams.items():
            if name in self._checked:
                continue
            if facts.retention == "interest" and options.commit_mode != "consumer":
                if options.fetching.fail_on_data_loss:
                    raise OptionError(
                        f"stream {name} drops a message when all its consumers have had it: without "
                        "commitMode=consumer the query would miss some (or say failOnDataLoss=false)"
                    )
            elif facts.retention == "workqueue" and options.commit_mode == "consumer":
                raise OptionError(
                    f"stream {name} is a work queue, where commitMode=consumer leaves messages behind; "
                    "commitMode=purge removes what was read"
                )
            drained = facts.retention == "workqueue" and options.commit_mode == "purge"
            if drained and facts.consumers and not options.purge_force:
                raise OptionError(
                    f"stream {name} is a work queue with {facts.consumers} consumers of its own, which "
                    "commitMode=purge would take messages from; purge.force=true does it"
                )
            self._checked.add(name)

    def begin(self, offset: Offset) -> None:
        """Create the durables before streams are read from this offset on."""
        if self._options.commit_mode != "consumer":
            return
        for name, at in offset.streams.items():
            if (name, at.id) in self._begun:
                continue
            with explained(self._options.connection, name):
                found = self._info(name)
                if found is None:
                    self._create(name, at.next)
                else:
                    self._refuse_foreign(name, found, offset.query)
            self._begun.add((name, at.id))

    def tell(self, offset: Offset, streams: Mapping[str, StreamFacts]) -> None:
        """Report to JetStream that everything before this offset has been processed.

        `streams` is their current state; streams of the offset that are not in it are skipped.
        """
        mode = self._options.commit_mode
        if mode == "none" or offset.is_initial:
            return
        for name, at in offset.streams.items():
            facts = streams.get(name)
            if facts is None or facts.id != at.id or not self._is_due(name, at):
                continue
            try:
                if mode == "purge":
                    self._purge(name, at.next)
                else:
                    self._move(name, at.next, offset.query)
            except LinkError as error:
                self._note_failure(name, at)
                logger.warning(
                    "stream %s: progress to %d could not be recorded, and is tried again: %s",
                    name,
                    at.next,
                    error,
                )
            else:
                self._told[name] = at
                self._failed.pop(name, None)

    def _is_due(self, name: str, at: Position) -> bool:
        if self._told.get(name) == at:
            return False
        failure = self._failed.get(name)
        return failure is None or failure.at != at or time.monotonic() >= failure.again_at

    def _note_failure(self, name: str, at: Position) -> None:
        before = self._failed.get(name)
        again = before is not None and before.at == at
        pause_s = min(2 * before.pause_s, _LONGEST_PAUSE_S) if before and again else _FIRST_PAUSE_S
        self._failed[name] = _Failure(at, pause_s, time.monotonic() + pause_s)

    def _purge(self, stream: str, before: int) -> None:
        for subject in self._options.filters or (None,):
            request: dict[str, Any] = {"seq": before}
            if subject is not None:
                request["filter"] = subject
            self._server.api_once(f"STREAM.PURGE.{stream}", request)

    # -- the durable --------------------------------------------------------------------------------

    def _move(self, stream: str, following: int, query: str | None) -> None:
        if stream not in self._claimed:
            self._claim(stream, following, query)
        durable = self._options.durable
        try:
            self._server.api_once(f"CONSUMER.RESET.{stream}.{durable}", {"seq": following})
        except NoResponders:
            self._replace(stream, following, query)  # a server older than 2.14
        except RequestTimeout:
            if self._info(stream) is not None:
                raise
            # The server does not answer for a consumer that does not exist: it was deleted, perhaps with
            # its stream.
            self._claimed.discard(stream)
            self._claim(stream, following, query)

    def _claim(self, stream: str, following: int, query: str | None) -> None:
        """Write the query's name into the durable's metadata, unless it is already there."""
        found = self._info(stream)
        if found is None:
            logger.warning("durable %s of stream %s is gone; created again", self._options.durable, stream)
            self._create(stream, following, query)
        else:
            self._refuse_foreign(stream, found, query)
            config = found["config"]
            if (config.get("metadata") or {}).get(OWNER) != query and query is not None:
                config["metadata"] = {**_own_metadata(config), OWNER: query}
                self._write(stream, config, "update")
        self._claimed.add(stream)

    def _replace(self, stream: str, following: int, query: str | None) -> None:
        found = self._info(stream)
        if found is None:
            self._create(stream, following, query)
            return
        self._server.api_once(f"CONSUMER.DELETE.{stream}.{self._options.durable}")
        self._create(stream, following, query)

    def _info(self, stream: str) -> dict[str, Any] | None:
        try:
            return self._server.api_once(f"CONSUMER.INFO.{stream}.{self._options.durable}")
        except LinkApiError as error:
            if error.err is Err.CONSUMER_NOT_FOUND:
                return None
            raise

    def _create(self, stream: str, following: int, query: str | None = None) -> None:
        config: dict[str, Any] = {
            "durable_name": self._options.durable,
            "name": self._options.durable,
            "description": "progress of a Spark query",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": following,
            "ack_policy": "all",
            "replay_policy": "instant",
        }
        if self._options.filters:
            config["filter_subjects"] = list(self._options.filters)
        if query is not None:
            config["metadata"] = {OWNER: query}
        self._write(stream, config, "create")

    def _write(self, stream: str, config: dict[str, Any], action: str) -> None:
        self._server.api_once(
            f"CONSUMER.CREATE.{stream}.{self._options.durable}",
            {"stream_name": stream, "config": config, "action": action},
        )

    def _refuse_foreign(self, stream: str, found: dict[str, Any], query: str | None) -> None:
        owner = (found["config"].get("metadata") or {}).get(OWNER)
        if owner is not None and owner != query:
            raise OptionError(
                f"durable {self._options.durable} of stream {stream} belongs to another query ({owner}): two "
                "would undo each other's progress. Choose another name, or delete the consumer if that "
                "query, or the checkpoint it had, is gone"
            )
        if found["config"].get("ack_policy") != "all":
            raise OptionError(
                f"durable {self._options.durable} of stream {stream} was not made by this source; "
                "choose another name"
            )


def _own_metadata(config: dict[str, Any]) -> dict[str, str]:
    """Return a consumer's metadata without the server's own entries."""
    metadata = config.get("metadata") or {}
    return {key: value for key, value in metadata.items() if not key.startswith("_nats.")}
