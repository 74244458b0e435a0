"""The leaf links of a broker: operations of the other servers, and the life of each link.

``remote`` makes links, the listener accepts them; from then on both kinds are the same here.  A server at the
other end that breaks the rules of the protocol is logged and disconnected, and nothing it said is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from millstream.base import guard
from millstream.base.descriptors import uses_kept
from millstream.base.untracked import untrack
from millstream.broker.backpressure import Backpressure
from millstream.broker.close_reason import CloseReason
from millstream.broker.handshake import apply_amounts
from millstream.broker.keepalive import Keepalive
from millstream.broker.leaf import compression, login, rules, spoke
from millstream.broker.leaf.connection import LeafConnection
from millstream.broker.leaf.dialer import PACKED_MESSAGES
from millstream.broker.leaf.interest import key_of
from millstream.broker.leaf.links import AccountLinks
from millstream.broker.leaf.remote import Remote, shown
from millstream.broker.options import CompressionOptions, ConnectionType, LeafOptions
from millstream.broker.permissions import PermissionRuleError
from millstream.broker.routes import Subscription
from millstream.broker.session import ClientSession
from millstream.broker.tls_peer import pins_allow
from millstream.golang.quote import quoted
from millstream.protocol import errors
from millstream.protocol.parser import Op, Parser
from millstream.subjects.match import is_one_word, valid_subscription
from millstream.subjects.tokens import token_count

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.leaf.hub import Hub
    from millstream.broker.websocket_upgrade import Upgrade

_log = logging.getLogger("millstream.broker")

_LINE: Final = 64 * 1024  # bytes of a control line: between servers they are longer than those of clients
_MAX_WEIGHT: Final = 1_000_000  # members of a queue group that one link may stand for
_LOOP_DELAY_S: Final = 30.0  # until the next attempt after a circle of links was found
_MOST_TEXT: Final = 500  # letters of a reason in the log, and in what the other server is told
_UNLIMITED: Final = 2**31 - 1


class Leafs:
    """All links of a broker."""

    def __init__(self, broker: Broker, options: LeafOptions) -> None:
        self.broker = broker
        self.options = options
        self.links: dict[int, LeafConnection] = {}  # that are logged in
        self._strangers: dict[int, LeafConnection] = {}  # that are not yet
        self.hub = self._make_hub()
        self.remotes = [Remote(broker, self, each, options) for each in options.remotes]
        self._handlers: dict[int, Callable[[LeafConnection], None]] = {
            Op.INFO: self._info,
            Op.CONNECT: self._connect,
            Op.LEAF_SUB: self._subscribe,
            Op.LEAF_UNSUB: self._unsubscribe,
            Op.PING: self._ping,
            Op.PONG: self._pong,
            Op.OK: lambda link: None,
            Op.ERR: self._error,
            Op.UNCLEAN_PUB: lambda link: link.space.refuse(link.parser.subject()),
        }

    def _make_hub(self) -> Hub | None:
        if not self.options.port:
            return None
        from millstream.broker.leaf.hub import Hub

        return Hub(self.broker, self)

    def start(self) -> None:
        """Begin to make links."""
        for remote in self.remotes:
            remote.start()

    def listens(self, port: int) -> None:
        """Record the port at which links are accepted."""
        assert self.hub is not None
        self.hub.port = port

    async def stop(self) -> None:
        """Make no more links; those that are there are closed with all other connections."""
        for remote in self.remotes:
            await remote.stop()

    def check_all(self) -> None:
        """End all links, because accounts or users have changed: those that still may link do so anew."""
        for link in list(self.links.values()):
            self.broker.close(link, CloseReason.CLIENT_CLOSED)

    def reload(self, options: LeafOptions) -> None:
        """Follow changed options: make and end links, and compress those that stay in another way."""
        self.options = options
        wanted = {each.name: each for each in options.remotes}
        known = {remote.options.name: remote for remote in self.remotes}
        for name, remote in known.items():
            if name in wanted:
                remote.change(wanted.pop(name))
            else:
                remote.give_up()
                self.remotes.remove(remote)
        for link in self.all():
            if not self._may_stay(link):
                self.broker.close(link, CloseReason.CLIENT_CLOSED)
        for each in wanted.values():
            remote = Remote(self.broker, self, each, options)
            self.remotes.append(remote)
            remote.start()

    def _may_stay(self, link: LeafConnection) -> bool:
        """Return False if changed options end a link; compress it in another way if they say so."""
        owner: Remote | None = link.peer.remote
        if owner is not None and (owner not in self.remotes or owner.options.disabled):
            return False
        own = self._compression_of(link)
        return not link.ready or compression.follow(link, own, link.keepalive.round_trip_s)

    def all(self) -> list[LeafConnection]:
        return [*self.links.values(), *self._strangers.values()]

    # -- life -------------------------------------------------------------------------------------

    def new_connection(self, account: Account, peer: login.Peer) -> LeafConnection:
        """Return a link that waits for its transport."""
        broker = self.broker
        options = broker.options
        parser = Parser(max(options.max_control_line, _LINE), options.max_payload)
        link = LeafConnection(broker, broker.tick, parser, broker.next_cid(), account, peer)
        link.session = ClientSession(
            ip="", port=0, kind=ConnectionType.LEAFNODE, started_ns=time.time_ns(), started=broker.now()
        )
        link.session.max_subscriptions = options.max_subscriptions or -1
        link.last_activity = broker.now()
        link.backpressure = Backpressure(link)
        link.keepalive = Keepalive(link, options.ping_interval_s, options.ping_max)
        parser.headers_allowed = options.headers
        return link

    def connection_made(self, link: LeafConnection) -> None:
        session, transport = link.session, link.transport
        transport.set_write_buffer_limits(high=1, low=0)
        peer = transport.get_extra_info("peername")
        if peer:
            session.ip, session.port = session.ip or peer[0].removeprefix("::ffff:"), peer[1]
        self._strangers[link.cid] = link
        if link.peer.remote is not None:
            _log.info("%s - Leafnode connection created for account: %s", link, link.account.name)
            return
        _log.info("%s - Leafnode connection created", link)
        self._note_tls(link)
        websocket = self.broker.options.websocket
        tls = websocket.tls if link.peer.websocket and websocket is not None else self.options.tls
        if tls is not None and not pins_allow(tls.pinned_certs, session.peer_certificate):
            _log.error("%s - TLS handshake error: certificate not pinned", link)
            self.broker.close(link, CloseReason.TLS_HANDSHAKE_FAILURE)
            return
        if not session.greeted:
            link.send(self.greeting(link, transport.get_extra_info("sockname")))
        if uses_kept(transport):
            self.broker.close(link, CloseReason.MAX_CONNECTIONS_EXCEEDED, errors.MAX_CONNECTIONS)
            return
        if self.broker.stops():
            self.broker.close(link, CloseReason.SERVER_SHUTDOWN)
            return
        assert self.hub is not None
        self.hub.await_connect(link)

    def accept(self, upgrade: Upgrade | None = None) -> LeafConnection:
        """Return a link that another server makes, perhaps through a websocket."""
        assert self.hub is not None
        return self.hub.accept(upgrade)

    def greeting(self, link: LeafConnection, found_at: tuple[Any, ...] | None) -> bytes:
        """Return the first INFO for a spoke that found us at this address."""
        assert self.hub is not None
        return self.hub.greeting(link, [shown(found_at)] if found_at else [])

    def _note_tls(self, link: LeafConnection) -> None:
        ssl_object = link.transport.get_extra_info("ssl_object")
        if ssl_object is not None:
            link.session.tls_version = (ssl_object.version() or "").removeprefix("TLSv")
            link.session.peer_certificate = ssl_object.getpeercert(binary_form=True)

    def admit(self, link: LeafConnection, link_rules: rules.LinkRules) -> None:
        """Join a link that has logged in with its account; it is told everything in slices."""
        account = link.account
        link.take_rules(link_rules)
        apply_amounts(self.broker, link)
        compression.trust(link)
        if link.peer.deflated:
            link.transport.max_payload = self.broker.options.max_payload * PACKED_MESSAGES
        self._strangers.pop(link.cid, None)
        self.links[link.cid] = link
        account.links[link.cid] = link
        links: Any = account.space.links
        if links is None:
            links = AccountLinks(account.space)
        link.links = links
        link.ready = True
        links.add(link)
        link.keepalive.start()
        link.send(b"LS+ %b\r\n" % links.loop_subject)
        for mapping in account.mapped_subjects:
            if link_rules.may_ask_for(mapping, None):
                link.send(b"LS+ %b\r\n" % mapping)
        self.broker.turns.in_slices("telling a link everything", links.interest.tell_everything(link))
        self.broker.observer.link_ready(link)

    def forget(self, link: LeafConnection, reason: CloseReason) -> None:
        """Remove a closed link from everything that refers to it."""
        link.session.reason = reason
        link.session.stop_auth_timer()
        self._strangers.pop(link.cid, None)
        was_ready = self.links.pop(link.cid, None) is not None
        link.account.links.pop(link.cid, None)
        if link.links is not None:
            link.links.drop(link)
            guard.alone("ending subscriptions", self.broker.departures.leave, link, None)
            link.links.finish(link)
        _log.info("%s - Leafnode connection closed: %s - Account: %s", link, reason.value, link.account.name)
        if was_ready:
            guard.alone("telling of a link's end", self.broker.observer.link_ended, link, reason)
        link.keepalive.end()
        link.backpressure.end()
        remote: Remote | None = link.peer.remote
        if remote is not None:
            remote.lost(link)

    def violate(self, link: LeafConnection, text: str, reason: CloseReason | None = None) -> None:
        """End a link whose other end does what it must not do; `text` may repeat what it said."""
        text = "".join(each if each.isprintable() else "?" for each in text[:_MOST_TEXT])
        _log.error("%s - %s", link, text)
        self.broker.close(link, reason or CloseReason.PROTOCOL_VIOLATION, text.encode())

    # -- operations -------------------------------------------------------------------------------

    def execute(self, link: LeafConnection, op: int) -> None:
        """Execute any operation but a message."""
        handler = self._handlers.get(op)
        if handler is not None:
            handler(link)
        elif op == Op.LINE_TOO_LONG:
            self.violate(link, errors.LINE_TOO_LONG.decode(), CloseReason.MAX_CONTROL_LINE_EXCEEDED)
        elif op == Op.PAYLOAD_TOO_BIG:
            self.violate(link, errors.PAYLOAD_TOO_BIG.decode(), CloseReason.MAX_PAYLOAD_EXCEEDED)
        else:
            self.violate(link, "Unknown Protocol Operation")

    def refuse_early(self, link: LeafConnection) -> None:
        self.violate(link, "Authorization Violation")

    def refuse_message(self, link: LeafConnection, subject: bytes) -> None:
        """Drop a message that must not come in; a hub ends the link, as nats-server does."""
        if link.peer.spoke or not link.rules.is_violated_by_message(subject):
            link.session.note_refusal(link, "Publish Violation - Subject %s", quoted(subject))
            return
        text = f"Permissions Violation for Publish to {quoted(subject)}"
        link.session.note_refusal(link, "%s - Check other side configuration", text)
        self.broker.close(link, CloseReason.PROTOCOL_VIOLATION, text.encode())

    def refuse_size(self, link: LeafConnection, size: int) -> None:
        link.session.note_refusal(
            link, "a message of %d bytes is not sent: the other server takes %d", size, link.rules.max_payload
        )

    def _info(self, link: LeafConnection) -> None:
        try:
            info = login.read_info(link.parser.argument())
            if link.peer.remote is not None:
                spoke.take_info(self, link, info)
            elif self.hub is not None:
                self.hub.take_info(link, info)
        except (login.BadLogin, PermissionRuleError) as error:
            self.violate(link, str(error))

    def _connect(self, link: LeafConnection) -> None:
        if self.hub is None or link.peer.remote is not None:
            self.violate(link, "Unknown Protocol Operation")
            return
        try:
            self.hub.take_connect(link)
        except (login.BadLogin, PermissionRuleError) as error:
            self.violate(link, str(error))

    def _ping(self, link: LeafConnection) -> None:
        link.send(b"PONG\r\n")
        link.keepalive.heard(self.broker.now())

    def _pong(self, link: LeafConnection) -> None:
        link.keepalive.pong(self.broker.now())
        own = self._compression_of(link)
        if own.mode == compression.AUTO and compression.is_wanted(link.peer.compression):
            compression.choose(link, compression.by_round_trip(own, link.keepalive.round_trip_s))

    def _compression_of(self, link: LeafConnection) -> CompressionOptions:
        remote: Remote | None = link.peer.remote
        return self.options.compression if remote is None else remote.options.compression

    def _error(self, link: LeafConnection) -> None:
        """Log a refusal; a link that has logged in goes on, unless the other server ends it."""
        text = link.parser.argument().decode("utf-8", "replace").strip().strip("'")[:_MOST_TEXT]
        remote: Remote | None = link.peer.remote
        link.session.note_refusal(link, "Leafnode Error %s", quoted(text.encode()))
        if remote is not None:
            remote.refused(text)
        if not link.ready:
            self.broker.close(link, CloseReason.PARSE_ERROR)

    # -- subscriptions of the other server -----------------------------------------------------------

    def _subscribe(self, link: LeafConnection) -> None:
        if not link.ready:
            self.refuse_early(link)
            return
        link.in_operations += 1
        words = link.parser.argument().split()
        if len(words) not in (1, 3):
            self.violate(link, "Unknown Protocol Operation")
            return
        subject = words[0]
        queue, weight = None, 1
        if len(words) == 3:
            queue = words[1]
            weight = int(words[2]) if words[2].isdigit() and len(words[2]) <= 9 else 1
            weight = min(max(weight, 1), _MAX_WEIGHT)
        if subject.startswith(rules.LOOP_PREFIX) and subject == link.links.loop_subject:
            self._end_loop(link)
            return
        if not (valid_subscription(subject) and is_one_word(subject)):
            link.send(b"-ERR 'Invalid Subscription'\r\n")
            return
        if not link.rules.may_be_asked_for(subject):
            self._refuse_subscription(link, subject)
            return
        key = key_of(subject, queue)
        known: Subscription | None = link.subscriptions.get(key)
        if known is not None:
            if queue is not None and link.weight_of(known) != weight:
                link.set_weight(known, weight)
                link.links.subscribed(known)
            return
        most = self.broker.options.max_subject_tokens
        if most and token_count(subject) > most:
            link.send(b"-ERR '%b'\r\n" % errors.too_many_tokens(subject))
            return
        if 0 <= link.session.max_subscriptions <= len(link.subscriptions):
            link.session.note_refusal(link, "%s", errors.MAX_SUBSCRIPTIONS.decode())
            link.send(b"-ERR '%b'\r\n" % errors.MAX_SUBSCRIPTIONS)
            return
        subscription = Subscription(link, subject, queue, key)
        untrack(subscription)
        link.subscriptions.put(key, subscription)
        if weight != 1:
            link.set_weight(subscription, weight)
        link.space.subscribe(subscription)
        if link.account.stream_imports:
            self.broker.imports.shadow(link.account, subscription)

    def _unsubscribe(self, link: LeafConnection) -> None:
        if not link.ready:
            self.refuse_early(link)
            return
        link.in_operations += 1
        subscription: Subscription | None = link.subscriptions.get(b" ".join(link.parser.argument().split()))
        if subscription is not None:
            self.broker.subscriptions.remove(link, subscription)
            link.set_weight(subscription, 1)

    def _refuse_subscription(self, link: LeafConnection, subject: bytes) -> None:
        """Ignore a subscription that the rules forbid; a hub ends the link, as nats-server does."""
        if link.peer.spoke or not link.rules.is_violated_by_request(subject):
            return
        text = f"Permissions Violation for Subscription to {quoted(subject)}"
        link.session.note_refusal(link, "%s - Check other side configuration", text)
        self.broker.close(link, CloseReason.PROTOCOL_VIOLATION, text.encode())

    def _end_loop(self, link: LeafConnection) -> None:
        remote: Remote | None = link.peer.remote
        if remote is not None:
            remote.wait(_LOOP_DELAY_S)
        self.violate(
            link,
            f'Loop detected for leafnode account="{link.account.name}". '
            f"Delaying attempt to reconnect for {_LOOP_DELAY_S:g}s",
        )

    # -- rules ------------------------------------------------------------------------------------

    def built_in_denials(self, link: LeafConnection) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is denied outwards and inwards whatever is configured."""
        broker, account = self.broker, link.account
        return rules.built_in(
            is_system=account.is_system,
            domain=broker.identity.jetstream_domain or "",
            other_domain=link.peer.domain,
            shares_jetstream=broker.options.default_js_domains.get(account.name) == "",
        )

    def max_payload(self, link: LeafConnection) -> int:
        return link.peer.max_payload if link.peer.max_payload > 0 else _UNLIMITED
