"""Handle a row that cannot be written: fail the task, drop the row, or publish it as a dead letter.

A dead letter goes to another stream, with the reason.  It has the id of the row, so a task that is retried
does not store it twice.
"""

import logging
from typing import Final

from millstream.jsapi.letter_headers import ORIG_ROW, ORIG_SIZE, ORIG_SUBJECT, ROW_REASON
from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.errors import NoResponders, NotConnected
from millstream.link.frames import header_block
from millstream.link.publish_window import Receipts
from millstream.spark.errors import SparkError
from millstream.spark.writing.frames import RowFrames
from millstream.spark.writing.identity import TaskIdentity
from millstream.spark.writing.outcome import Verdict, verdict_on

logger: Final = logging.getLogger("millstream.spark")

_LOGGED: Final = 5  # rows that are logged one by one
_MOST_LETTERS: Final = 1000  # dead letters kept until they are stored,
_MOST_BYTES: Final = 16 * 1024 * 1024  # and bytes of their payloads
_HEADER_ROOM: Final = 4096  # bytes for the headers of a dead letter
_MOST_SUBJECT: Final = 512  # characters of the subject that are kept


class BadRow(SparkError):
    """A row cannot be written, and the option onBadRow is `fail`."""


class BadRows:
    """Counts and handles the rows of a task that cannot be written."""

    def __init__(self, policy: str, identity: TaskIdentity, dead_letter_subject: str = "") -> None:
        self.dropped = 0
        self.dead = 0
        self._policy = policy
        self._identity = identity
        self._subject = dead_letter_subject.encode()
        self._receipts = Receipts()
        self._letters: list[tuple[bytes, bytes]] = []  # headers and payload, one for each receipt
        self._held = 0  # bytes of these payloads
        self._seen: set[int] = set()

    def take(self, publisher: BlockingPublisher, frames: RowFrames, row: int, reason: str) -> None:
        """Handle row `row` of `frames`, which cannot be written; raise BadRow if the policy is `fail`."""
        number = frames.first_id + row
        if number in self._seen:
            return  # already handled before the connection broke
        subject = frames.subject_of(row).decode(errors="replace")
        if self._policy == "fail":
            raise BadRow(
                f"row {number} of {self._identity} (subject {subject!r}) can not be written: {reason}. "
                "The option onBadRow=drop or onBadRow=deadLetter would go on without it"
            )
        self._seen.add(number)
        if len(self._seen) <= _LOGGED:
            logger.warning("row %d of %s is left out: %s", number, self._identity, reason)
        if self._policy == "drop":
            self.dropped += 1
            return
        self.dead += 1
        payload = frames.payload_of(row)
        fields = {
            "Nats-Msg-Id": f"dlq:{self._identity.id_start.decode()}{number}",
            ROW_REASON: _line(reason),
            ORIG_SUBJECT: _line(subject[:_MOST_SUBJECT]),
            ORIG_ROW: f"{self._identity.id_start.decode()}{number}",
        }
        if len(payload) + _HEADER_ROOM > publisher.window.max_payload:
            fields[ORIG_SIZE] = str(len(payload))
            payload = b""
        self._send(publisher, header_block(fields), payload)
        if len(self._letters) >= _MOST_LETTERS or self._held >= _MOST_BYTES:
            self.settle(publisher)

    def settle(self, publisher: BlockingPublisher) -> None:
        """Wait until all dead letters are stored; raise SparkError if one cannot be.

        Call it again after the connection broke.
        """
        while self._letters:
            publisher.settle(self._receipts)
            again = []
            for place, error in self._receipts.errors.items():
                if verdict_on(error) is not Verdict.AGAIN or isinstance(error, NoResponders):
                    raise SparkError(
                        f"a dead letter of {self._identity} could not be stored: {error}"
                    ) from error
                again.append(self._letters[place])
            self._letters = []
            self._held = 0
            self._receipts = Receipts()
            for headers, payload in again:
                self._send(publisher, headers, payload)

    def _send(self, publisher: BlockingPublisher, headers: bytes, payload: bytes) -> None:
        self._letters.append((headers, payload))
        self._held += len(payload)
        try:
            publisher.publish(self._receipts, self._subject, headers, payload)
        except NotConnected as error:
            if len(self._receipts) < len(self._letters):
                self._receipts.refuse(error)
            raise


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
