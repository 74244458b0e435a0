"""Imports between accounts: streams and services.

A **stream import** shows messages of the exporting account to subscribers of the importing one.  Every
subscription that matches some of them gets a shadow in the exporter's subject space, which delivers to the
same client under the importer's subject.

A **service import** carries requests the other way.  It is a subscriber in the importing account; a request
is forwarded to the exporting account with a reply subject of our own (``_R_.…``), whose responses are
forwarded to the requester.  The export determines how long and for how many responses we wait.

        importer (requester)                           exporter (service)
    PUB help inbox.7 ──▶ ServiceImport ──▶ PUB desk.help _R_.x.y ──▶ service
    MSG inbox.7      ◀── Responses     ◀── PUB _R_.x.y           ◀──┘
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.complaints import Complaints
from millstream.base.ids import secret_token
from millstream.base.slices import Pieces
from millstream.broker.options import Export, ExportKind, Import, ResponseType
from millstream.broker.router import REPLY_PREFIX, SubjectSpace
from millstream.broker.routes import SubjectRoute, Subscriber, Subscription, Target
from millstream.broker.service_exports import Offers, ServiceExports
from millstream.broker.service_latency import Measurement, chosen, client_info
from millstream.jsapi.codec import encode
from millstream.protocol import headers
from millstream.protocol.parser import Frame, make_frame
from millstream.subjects.functions import TransformError
from millstream.subjects.match import collide, matches
from millstream.subjects.transform import SubjectTransform, destination_to_pattern, pattern_to_destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker

_log = logging.getLogger("millstream.broker")

_REQUEST_INFO: Final = b"Nats-Request-Info"
_MOST_PENDING: Final = 65_536  # answers of an account's services that are waited for
_MOST_WATCHED: Final = 256  # reply subjects of measured requests: every change of a wildcard looks at all
_MAX_HOPS: Final = 12  # service imports a request may pass; more is a circle


class StreamImport:
    """Subjects of another account, as subscribers of this one see them."""

    def __init__(self, configured: Import, exporter: Account) -> None:
        self.exporter = exporter
        self.traceable = configured.allow_trace
        self.subject = configured.subject.encode()
        local = configured.to or configured.subject
        if configured.prefix:
            local = f"{configured.prefix.rstrip('.')}.{configured.subject}"
        self.local = destination_to_pattern(local).encode()
        self._transform = None
        if self.local != self.subject and _has_wildcard(self.subject):
            self._transform = SubjectTransform(configured.subject, pattern_to_destination(local), strict=True)

    def local_subject(self, subject: bytes) -> bytes:
        """Return the importer's name of the exporter's `subject`, which must match the import."""
        if self._transform is not None:
            return self._transform.rewrite(subject)
        return subject if self.local == self.subject else self.local

    def rewriter(self, wanted: bytes) -> Callable[[bytes], bytes | None]:
        """Return a function from exporter's to importer's subjects, or None for those not in `wanted`."""

        def rewrite(subject: bytes) -> bytes | None:
            local = self.local_subject(subject)
            return local if matches(local, wanted) else None

        return rewrite


class PendingReply(msgspec.Struct):
    """The destination of the response to a forwarded request."""

    importer: Account
    reply: bytes
    expires: float  # monotonic
    many: bool  # the service may answer more than once
    measurement: Measurement | None = None


class Responses(Subscriber):
    """Receives the responses of the services that an account exports."""

    def __init__(self, broker: Broker, account: Account) -> None:
        self._broker = broker
        self._pending: OrderedDict[bytes, PendingReply] = OrderedDict()
        self._measured = 0  # pending replies with a measurement
        self._full = Complaints(_log)
        self._prefix = REPLY_PREFIX + secret_token().encode() + b"."
        account.space.subscribe(Subscription(self, self._prefix + b"*", None, b""))

    def expect(
        self, importer: Account, reply: bytes, export: Export, measurement: Measurement | None = None
    ) -> bytes:
        """Record the requester; return the reply subject for the forwarded request.

        Whoever knows it can respond, so it is random: no other service of the account can guess it.
        """
        now = self._broker.now()
        while self._pending:
            oldest = next(iter(self._pending))
            if self._pending[oldest].expires > now and len(self._pending) < _MOST_PENDING:
                break
            if self._pending[oldest].expires > now:
                self._full.warn(
                    "%d requests to a service wait for answers: the oldest is forgotten", _MOST_PENDING
                )
            self.forget(oldest)
        subject = self._prefix + secret_token().encode()
        many = export.response_type is not ResponseType.SINGLETON
        patience_s = export.response_threshold_s
        self._pending[subject] = PendingReply(importer, reply, now + patience_s, many, measurement)
        if measurement is not None:
            watch = self._measured < _MOST_WATCHED
            self._measured += 1
            measurement.wait(importer, reply, patience_s, partial(self.forget, subject), watch=watch)
        return subject

    def find(self, subject: bytes) -> PendingReply | None:
        """Return the requester that waits on this reply subject, or None."""
        pending = self._pending.get(subject)
        if pending is not None and pending.expires <= self._broker.now():
            self.forget(subject)
            return None
        return pending

    def forget(self, subject: bytes) -> None:
        pending = self._pending.pop(subject, None)
        if pending is not None and pending.measurement is not None:
            self._measured -= 1
            pending.measurement.end()

    def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
        try:
            return self.pass_on(target.subject, frame, source)
        except Exception as error:
            self.failed(target, frame, error)
            return False

    def pass_on(self, subject: bytes, frame: Frame, source: Subscriber | None) -> bool:
        """Forward a response to the requester; return True if anybody received it.

        The requester chose the subject, not the service that responds, so the message counts as sent by the
        server (`source` None) and reaches no service of the server there.
        """
        pending = self.find(subject)
        if pending is None:
            return False
        if pending.measurement is not None:
            pending.measurement.answered(source)
        if not pending.many:
            self.forget(subject)
        space = pending.importer.space
        return space.deliver(_mapped_route(space, pending.reply), frame, None) > 0


class ServiceImport(Subscriber):
    """A service of another account, as this one calls it."""

    def __init__(
        self, broker: Broker, importer: Account, exporter: Account, configured: Import, export: Export
    ) -> None:
        self._broker = broker
        self._importer = importer
        self.exporter = exporter
        self.traceable = export.allow_trace
        self._export = export
        self._share = configured.share
        self._remote = configured.subject.encode()
        local = configured.to or configured.subject
        self._transform = _service_transform(local, configured.subject)
        self.subscription = Subscription(self, destination_to_pattern(local).encode(), None, b"")

    def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
        try:
            return self.pass_on(
                target, frame, source, lambda space, route, request: space.deliver(route, request, source)
            )
        except Exception as error:
            self.failed(target, frame, error)
            return False

    def pass_on(
        self,
        target: Target,
        frame: Frame,
        source: Subscriber | None,
        send: Callable[[SubjectSpace, SubjectRoute, Frame], int],
    ) -> bool:
        """Forward the request with `send` to the exporting account; return True if anybody received it."""
        imports = self._broker.imports
        if imports.hops >= _MAX_HOPS:
            return False
        imports.catch_up(self.exporter)
        responses = imports.responses(self.exporter)
        measurement = self._measure(frame, source)
        reply = b""
        if frame.reply_size:
            reply = responses.expect(self._importer, frame.reply(), self._export, measurement)
        elif measurement is not None:
            measurement.refuse()
        block = headers.claim(frame.headers(), (_REQUEST_INFO, self._request_info(source)))
        space = self.exporter.space
        subject = self._remote if self._transform is None else self._transform.rewrite(target.subject)
        route = _mapped_route(space, subject)
        imports.hops += 1
        try:
            taken = send(space, route, make_frame(reply, block, frame.payload()))
        finally:
            imports.hops -= 1
        if reply and not taken:
            if measurement is not None:
                measurement.undelivered()
            responses.forget(reply)
        return taken > 0

    def _measure(self, frame: Frame, source: Subscriber | None) -> Measurement | None:
        """Return a measurement of the request if its export wants one."""
        latency = self._export.latency
        asking = chosen(latency, frame.headers() or b"") if latency is not None else None
        if latency is None or asking is None:
            return None
        requestor = client_info(self._broker, source, self._importer.name, detailed=self._share)
        return Measurement(self._broker, self.exporter, latency, requestor, asking)

    def _request_info(self, source: Subscriber | None) -> bytes:
        """Return the request's account and, with `share: true`, its client."""
        return encode(client_info(self._broker, source, self._importer.name, detailed=self._share))


class Wiring:
    """The imports of one account, before they are in force."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.streams: list[StreamImport] = []
        self.services: list[Subscription] = []
        self.ours: list[Subscription] = []  # of the server itself, that get new shadows

    def add(self, broker: Broker, configured: Import, exporter: Account, exports: ServiceExports) -> None:
        """Add an import from an account with these exports; one that does not work is logged."""
        try:
            if configured.kind is ExportKind.STREAM:
                self.streams.append(StreamImport(configured, exporter))
            else:
                export = exports.find(configured.subject)
                service = ServiceImport(broker, self.account, exporter, configured, export)
                self.services.append(service.subscription)
        except TransformError as error:
            _log.error(
                "import of %s by account %s does not work: %s", configured.subject, self.account.name, error
            )


class Imports:
    """All imports of a broker, built from the configuration of its accounts."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._responses: dict[str, Responses] = {}
        self._services: dict[Account, list[Subscription]] = {}  # by the importing account
        self._ours: dict[Subscription, Account] = {}  # of the server itself, that see what is imported
        self._late: dict[Account, Wiring] = {}  # not in force yet
        self.hops = 0  # borders that the request being delivered has passed
        self.wire()

    def wire(self) -> None:
        """Rebuild all imports, and the shadows of our own subscriptions; clients need ``renew_shadows``."""
        for account in [*self._services]:
            self.unwire(account)
        for account in self._broker.accounts.values():
            self._wire(account)
        for subscription, account in self._ours.items():
            self.renew_shadows(account, [subscription])

    def wire_account(self, account: Account) -> None:
        """Rebuild the imports of one account, and the shadows of our own subscriptions in it."""
        if not (account.configured.imports or account.stream_imports or account in self._services):
            return
        self.unwire(account)
        self._wire(account)
        for subscription, owner in self._ours.items():
            if owner is account:
                self.renew_shadows(account, [subscription])

    def unwire(self, account: Account) -> None:
        """End the imports of an account."""
        self._late.pop(account, None)
        account.stream_imports = []
        for subscription in self._services.pop(account, ()):
            account.space.unsubscribe(subscription)

    def forget(self, account: Account) -> None:
        """End everything of an account that is dropped; one of the same name would be another one."""
        self.unwire(account)
        self._responses.pop(account.name, None)

    def exchange(self, wirings: list[Wiring]) -> None:
        """Plan to give accounts the imports that were prepared; see ``catch_up``."""
        for account in list(self._late):
            self.catch_up(account)
        self._late = {wiring.account: wiring for wiring in wirings}
        for subscription, account in self._ours.items():
            if account in self._late:
                self._late[account].ours.append(subscription)

    def catch_up(self, account: Account) -> None:
        """Exchange the imports of an account if that is planned, before a client of it does anything."""
        wiring = self._late.pop(account, None)
        if wiring is None:
            return
        self.unwire(account)
        self._take(wiring)
        self.renew_shadows(account, [each for each in wiring.ours if each in self._ours])

    def catch_up_in_slices(self) -> Pieces[None]:
        """Exchange the imports of all accounts for which that is planned."""
        for account in list(self._late):
            self.catch_up(account)
            yield 1

    def _wire(self, account: Account) -> None:
        wiring = Wiring(account)
        offers = Offers()
        for configured in account.configured.imports:
            exporter = self._broker.accounts[configured.account]
            wiring.add(self._broker, configured, exporter, offers.of(exporter.configured))
        self._take(wiring)

    def _take(self, wiring: Wiring) -> None:
        account = wiring.account
        account.stream_imports = wiring.streams
        if wiring.services:
            self._services[account] = wiring.services
            for subscription in wiring.services:
                account.space.subscribe(subscription)

    def renew_shadows(self, account: Account, subscriptions: Iterable[Subscription]) -> None:
        """Replace the shadows of subscriptions by those of the present imports."""
        for subscription in subscriptions:
            if subscription.shadows is not None:
                self.unshadow(subscription)
            if account.stream_imports and not subscription.closed:
                self.shadow(account, subscription)

    def responses(self, exporter: Account) -> Responses:
        known = self._responses.get(exporter.name)
        if known is None:
            known = self._responses[exporter.name] = Responses(self._broker, exporter)
        return known

    def shadow(self, account: Account, subscription: Subscription) -> None:
        """Add shadows for a new subscription to what its account imports."""
        for stream in account.stream_imports:
            if not collide(subscription.subject, stream.local):
                continue
            shadow = Subscription(subscription.owner, stream.subject, subscription.queue, subscription.sid)
            shadow.origin = subscription
            shadow.rewrite = stream.rewriter(subscription.subject)
            shadow.traceable = stream.traceable
            stream.exporter.space.subscribe(shadow)
            if subscription.shadows is None:
                subscription.shadows = []
            subscription.shadows.append((stream.exporter.space, shadow))

    def shadow_ours(self, account: Account, subscription: Subscription) -> None:
        """Add shadows for a subscription of the server itself, until ``forget_ours``."""
        self._ours[subscription] = account
        self.shadow(account, subscription)

    def account_of(self, target: Target) -> Account:
        """Return the account that sees a message through a subscription of ``shadow_ours``."""
        assert target.subscription.origin is not None
        return self._ours[target.subscription.origin]

    def forget_ours(self, subscription: Subscription) -> None:
        if self._ours.pop(subscription, None) is not None:
            self.unshadow(subscription)

    def unshadow(self, subscription: Subscription) -> None:
        for space, shadow in subscription.shadows or ():
            shadow.closed = True
            space.unsubscribe(shadow)
        subscription.shadows = None


def _service_transform(local: str, remote: str) -> SubjectTransform | None:
    """Return the transform from importer's to exporter's subject; None if there is only one subject."""
    if not _has_wildcard(local.encode()) and "$" not in local and "{{" not in local:
        return None
    if local == remote:
        return SubjectTransform(local, pattern_to_destination(remote))
    # Written as the exporter's pattern and what the importer makes of it, so it is turned around.
    return SubjectTransform(
        destination_to_pattern(remote), pattern_to_destination(local), strict=True
    ).inverse()


def _mapped_route(space: SubjectSpace, subject: bytes) -> SubjectRoute:
    """Return the route of a message from another account, after this account's mappings."""
    return space.route(subject if space.mapping is None else space.mapping(subject))


def _has_wildcard(subject: bytes) -> bool:
    return any(token in (b"*", b">") for token in subject.split(b"."))
