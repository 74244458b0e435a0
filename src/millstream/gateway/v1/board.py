"""The open subscriptions of one link, and the events that concern them: acks and deletions of consumers.

A caller may acknowledge at any gateway, which publishes the ack on ``ack-rx.<stream>.<consumer>`` as httpmq
does, so that the gateway with the subscription can send more.  An ack from one of our gateways is marked as
known to JetStream; one from httpmq still has to be sent to JetStream.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.gateway.link import CallerLink
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkError
from millstream.link.subscriptions import LinkSubscription

if TYPE_CHECKING:
    from millstream.gateway.v1.session import Session

_ACKS: Final = "ack-rx."
_CONSUMER_DELETED: Final = "$JS.EVENT.ADVISORY.CONSUMER.DELETED."
_STREAM_DELETED: Final = "$JS.EVENT.ADVISORY.STREAM.DELETED."

Key = tuple[str, str]  # stream and consumer


class Board:
    """The sessions of one link; listens to NATS only while there are any."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link
        self._sessions: dict[Key, set[Session]] = {}
        self._subscriptions: list[LinkSubscription] = []

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self._sessions.values())

    def at(self, key: Key) -> set[Session]:
        return self._sessions.get(key, set())

    def add(self, session: Session) -> None:
        if not self._sessions:
            self._subscriptions = [
                self._link.subscribe(_ACKS + "*.*", deliver=self._take_acks),
                self._link.subscribe(_CONSUMER_DELETED + "*.*", deliver=self._take_deleted_consumers),
                self._link.subscribe(_STREAM_DELETED + "*", deliver=self._take_deleted_streams),
            ]
        self._sessions.setdefault(session.key, set()).add(session)

    def remove(self, session: Session) -> None:
        sessions = self._sessions.get(session.key)
        if sessions is None or session not in sessions:
            return
        sessions.discard(session)
        if not sessions:
            del self._sessions[session.key]
        if not self._sessions:
            self.close()

    def close(self) -> None:
        """Stop listening; the link itself notifies the sessions that it is closed."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.unsubscribe()

    def announce(self, key: Key, stream_seq: int, consumer_seq: int) -> None:
        """Notify every gateway of an ack, without any guarantee of delivery."""
        self.acked(key, stream_seq)
        told = {
            "stream": key[0],
            "consumer": key[1],
            "seq_num": {"stream": stream_seq, "consumer": consumer_seq},
            "acked": True,
        }
        with contextlib.suppress(LinkError):
            self._link.publish(f"{_ACKS}{key[0]}.{key[1]}", msgspec.json.encode(told))

    def acked(self, key: Key, stream_seq: int) -> bool:
        """Free the message's place in its session; return whether a session had it."""
        # a list, so that all sessions are notified
        found = [session.acked(stream_seq) for session in self.at(key)]
        return any(found)

    def _take_acks(self, messages: list[LinkMessage]) -> None:
        for message in messages:
            with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError, ValueError):
                told: Any = msgspec.json.decode(message.payload)
                key = (str(told["stream"]), str(told["consumer"]))
                stream_seq = int(told["seq_num"]["stream"])
                is_known = told.get("acked") is True
                for session in list(self.at(key)):
                    if is_known:
                        session.acked(stream_seq)
                    else:
                        session.acknowledge(stream_seq)

    def _take_deleted_consumers(self, messages: list[LinkMessage]) -> None:
        for message in messages:
            stream, _, consumer = message.subject[len(_CONSUMER_DELETED) :].partition(".")
            for session in list(self.at((stream, consumer))):
                session.fail("the consumer was deleted")

    def _take_deleted_streams(self, messages: list[LinkMessage]) -> None:
        deleted = {message.subject[len(_STREAM_DELETED) :] for message in messages}
        for key, sessions in list(self._sessions.items()):
            if key[0] in deleted:
                for session in list(sessions):
                    session.fail("the stream was deleted")
