"""The interface of a consumer to its way of delivery: to a subject (push) or on request (pull)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo


class DeliveryMode(Protocol):
    """One way to deliver; a consumer keeps it for its whole life, and has ``ENDED`` after it."""

    active: bool  # somebody listens where a push consumer delivers; False for pull consumers
    polled: bool  # no event tells when a client stops using the consumer

    def start(self) -> None:
        """Begin to deliver."""

    def stop(self) -> None:
        """Cancel timers and subscriptions."""

    def deleted(self) -> None:
        """Tell clients that the consumer was deleted."""

    def shut_down(self) -> None:
        """Tell clients that the server stops."""

    def configure(self, before: ConsumerConfig) -> None:
        """Follow a configuration of the consumer that replaced `before`."""

    def ask(self, reply: bytes, body: bytes, block: bytes) -> None:
        """Take a pull request, or refuse it."""

    def unpin(self, group: str) -> None:
        """Let another client of a priority group have its turn."""

    def pump(self) -> None:
        """Deliver the messages that exist and may be sent."""

    def in_use(self) -> bool:
        """Return True if a client uses the consumer now."""

    def last_used_ns(self) -> int:
        """Return when a client used the consumer last."""

    def describe(self, info: ConsumerInfo) -> None:
        """Add to the consumer's info what belongs to this mode."""


class EndedDelivery:
    """The mode of a consumer that has ended: it does nothing."""

    active = False
    polled = False

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def deleted(self) -> None: ...

    def shut_down(self) -> None: ...

    def configure(self, before: ConsumerConfig) -> None: ...

    def ask(self, reply: bytes, body: bytes, block: bytes) -> None: ...

    def unpin(self, group: str) -> None: ...

    def pump(self) -> None: ...

    def in_use(self) -> bool:
        return False

    def last_used_ns(self) -> int:
        return 0

    def describe(self, info: ConsumerInfo) -> None: ...


ENDED: Final = EndedDelivery()
