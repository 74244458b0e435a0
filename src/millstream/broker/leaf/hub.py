"""The hub's side of the login: greet a spoke, check the credentials of its CONNECT, and confirm.

With `leafnodes { authorization }` its users may link, and no others; without it the users of the server may,
each to its own account.  The permissions of a user bind the spoke, which is told of them, so that neither
side sends what the other would refuse.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from millstream.base.ids import nonce
from millstream.broker.auth import (
    BrokerAuthenticator,
    ClientAuthenticator,
    ClientCredentials,
    Identity,
    Login,
)
from millstream.broker.close_reason import CloseReason
from millstream.broker.handshake import apply_amounts, plan_end, refusal_delay_s
from millstream.broker.info import API_LEVEL, SERVER_VERSION
from millstream.broker.leaf import compression, login
from millstream.broker.leaf.remote import shown
from millstream.broker.leaf.rules import LinkRules, combined
from millstream.broker.options import (
    GLOBAL_ACCOUNT,
    Authorization,
    ConnectionType,
    Permissions,
    SubjectRules,
    User,
)
from millstream.broker.password_checks import PasswordCheck, has_hung_up
from millstream.broker.permissions import PermissionRuleError
from millstream.broker.session import ConnectOptions
from millstream.broker.tls_peer import UnreadableCertificate, peer_names
from millstream.golang.quote import quoted
from millstream.protocol import errors

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.leaf.leafs import Leafs
    from millstream.broker.websocket_upgrade import Upgrade

_log = logging.getLogger("millstream.broker")

_AUTH_TIMEOUT_S: Final = 2.0
_LONGEST_NAME: Final = 256  # letters of a user in the log
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


class Hub:
    """Accepts the links of a broker."""

    def __init__(self, broker: Broker, leafs: Leafs) -> None:
        self._broker = broker
        self._leafs = leafs
        self._own = _own_authenticator(broker, leafs)
        self.port = 0  # listening, once it is known

    @property
    def _authenticator(self) -> BrokerAuthenticator:
        return self._own or self._broker.authenticator

    # -- greeting ---------------------------------------------------------------------------------

    def accept(self, upgrade: Upgrade | None) -> LeafConnection:
        """Return a link that waits for its transport, perhaps a websocket."""
        peer = login.Peer(
            isolated=self._leafs.options.isolate,
            websocket=upgrade is not None,
            deflated=upgrade is not None and upgrade.compressed,
        )
        link = self._leafs.new_connection(self._broker.global_account, peer)
        link.session.nonce = nonce().encode()
        if upgrade is not None:
            link.session.ip = upgrade.client_ip
        return link

    def greeting(self, link: LeafConnection, addresses: list[str]) -> bytes:
        """Return the first INFO, with the address at which the spoke found us, if that is known."""
        mode = self._leafs.options.compression.mode
        return self._info(
            link,
            addresses,
            nonce=link.session.nonce.decode(),
            compression="" if mode == compression.NOT_SUPPORTED or link.peer.deflated else mode,
        )

    def await_connect(self, link: LeafConnection) -> None:
        link.session.auth_timer = self._broker.turns.later(self._timeout_s(), self._timed_out, link)

    def _timeout_s(self) -> float:
        options = self._leafs.options
        if options.auth_timeout_s is not None:
            return options.auth_timeout_s
        return options.tls.timeout_s + 1 if options.tls is not None else _AUTH_TIMEOUT_S

    def _timed_out(self, link: LeafConnection) -> None:
        link.session.auth_timer = None
        self._broker.close(link, CloseReason.AUTHENTICATION_TIMEOUT, errors.AUTHENTICATION_TIMEOUT)

    def _info(self, link: LeafConnection, addresses: list[str], **special: Any) -> bytes:
        identity, options = self._broker.identity, self._leafs.options
        host = options.host
        tls = options.tls
        leaf_urls = [options.advertise] if options.advertise else addresses
        if options.no_advertise:
            leaf_urls = []  # some spokes take a port without the list for another one
        websocket_urls = None
        if link.peer.websocket:
            tls = None  # it is below the websocket
            websocket = self._broker.options.websocket
            advertised = websocket.advertise if websocket is not None else ""
            leaf_urls, websocket_urls = [], [advertised] if advertised else addresses
        info = login.LeafInfo(
            server_id=identity.server_id,
            server_name=identity.server_name,
            version=SERVER_VERSION,
            proto=login.LINK_PROTOCOL,
            go="millstream",
            host=host,
            port=self.port,
            headers=self._broker.options.headers,
            auth_required=True,
            tls_required=tls is not None,
            tls_verify=tls is not None and tls.verify,
            max_payload=link.parser.max_payload,
            jetstream=identity.jetstream_domain is not None,
            client_id=link.cid,
            domain=identity.jetstream_domain or "",
            api_lvl=API_LEVEL,
            info_on_connect=True,
            leafnode_urls=leaf_urls,
            ws_connect_urls=websocket_urls,
            **special,
        )
        return b"INFO %b \r\n" % msgspec.json.encode(info)

    # -- INFO and CONNECT -------------------------------------------------------------------------

    def take_info(self, link: LeafConnection, info: login.LeafInfo) -> None:
        """Agree on compression with a spoke that asks for it; raise BadLogin if that is impossible."""
        own, peer = self._leafs.options.compression, link.peer
        if peer.compression or peer.deflated or link.suspended or link.ready:
            return
        elapsed_s = self._broker.now() - link.session.started
        peer.compression = compression.agree(own, info.compression, elapsed_s)
        if compression.is_wanted(peer.compression):
            compression.begin(link, lambda text: self._leafs.violate(link, text))
            mode = compression.told(own, peer.compression)
            link.send(
                self._info(link, self._found_at(link), nonce=link.session.nonce.decode(), compression=mode)
            )

    def _found_at(self, link: LeafConnection) -> list[str]:
        return [shown(link.transport.get_extra_info("sockname"))]

    def take_connect(self, link: LeafConnection) -> None:
        """Check who the spoke is; raise BadLogin if its CONNECT cannot be read."""
        connect = login.read_connect(link.parser.argument())
        if link.ready or link.suspended:
            self._leafs.violate(link, "Unknown Protocol Operation")
            return
        link.session.stop_auth_timer()
        if connect.lang:
            self._leafs.violate(link, "attempted to connect to leafnode port", CloseReason.WRONG_PORT)
            return
        if connect.gateway or " " in connect.cluster:
            self._leafs.violate(link, "Rejecting connection from a gateway or cluster that is not valid")
            return
        options = self._leafs.options
        if options.min_version and not _is_at_least(connect.version, options.min_version):
            self._leafs.violate(
                link,
                f'connection rejected since minimum version required is "{options.min_version}"',
                CloseReason.MINIMUM_VERSION_REQUIRED,
            )
            return
        link.session.connect = ConnectOptions(user=connect.user, nkey=connect.nkey, name=connect.name)
        self._authenticate(link, connect)

    def _authenticate(
        self, link: LeafConnection, connect: login.LeafConnect, *, looked_up: bool = False
    ) -> None:
        try:
            candidate = self._authenticator.candidate(_credentials(link, connect))
        except UnreadableCertificate as error:
            _log.warning("%s - %s", link, error)
            candidate = None
        broker = self._broker
        if candidate is None:
            self._refuse_in_time(link, connect)
        elif candidate.needs_account:
            if looked_up or broker.registry is None:
                self._refuse(link, connect)
                return
            self._suspend(link)
            broker.registry.look_up(
                candidate.needs_account,
                lambda: broker.turns.soon(
                    self._resume, link, lambda: self._authenticate(link, connect, looked_up=True)
                ),
            )
        elif candidate.ask is not None:
            self._suspend(link)
            candidate.ask(
                self._login(link, connect),
                lambda identity: self._resume(link, lambda: self._decide(link, connect, identity)),
            )
        elif candidate.slow:
            self._suspend(link)
            check = PasswordCheck(
                candidate.verify,
                is_gone=lambda: link.closed or has_hung_up(link.transport),
                done=lambda identity: self._resume(link, lambda: self._decide(link, connect, identity)),
                gone=lambda: broker.close(link, CloseReason.CLIENT_CLOSED),
            )
            broker.password_checks.submit((link.session.ip, candidate.identity.user), check)
        else:
            self._decide(link, connect, candidate.verify())

    def _refuse_in_time(self, link: LeafConnection, connect: login.LeafConnect) -> None:
        """Refuse a user as late as one with a wrong bcrypt password, so that time does not reveal users."""
        delay_s = refusal_delay_s(self._broker, self._authenticator, connect.user)
        if not delay_s:
            self._refuse(link, connect)
            return
        self._suspend(link)
        self._broker.turns.later(delay_s, self._resume, link, lambda: self._refuse(link, connect))

    def _login(self, link: LeafConnection, connect: login.LeafConnect) -> Login:
        """Return what a service that decides about logins is told."""
        return Login(
            credentials=_credentials(link, connect),
            id=link.cid,
            name=connect.name,
            version=connect.version,
            protocol=connect.protocol,
            tls_version=link.session.tls_version,
            timeout_s=self._timeout_s(),
        )

    def _suspend(self, link: LeafConnection) -> None:
        link.suspended = True
        link.transport.pause_reading()

    def _resume(self, link: LeafConnection, step: Any) -> None:
        if link.closed:
            return
        link.suspended = False
        link.transport.resume_reading()
        try:
            step()
        except Exception as error:
            self._broker.fail(link, "a login", error)
        link.process()

    def _refuse(self, link: LeafConnection, connect: login.LeafConnect) -> None:
        label = f" - User {quoted(connect.user[:_LONGEST_NAME].encode())}" if connect.user else ""
        _log.error("%s - authentication error%s", link, label)
        self._broker.observer.authentication_failed(link)
        self._broker.close(link, CloseReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION)

    def _refuse_one_more(self, link: LeafConnection, connect: login.LeafConnect) -> None:
        """Refuse a link of an account that may not have more."""
        if self._own is not None:
            self._refuse(link, connect)
        else:
            text = errors.MAX_ACCOUNT_CONNECTIONS.decode()
            self._leafs.violate(link, text, CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED)

    def _decide(self, link: LeafConnection, connect: login.LeafConnect, identity: Identity | None) -> None:
        if identity is None:
            self._refuse(link, connect)
            return
        name = identity.account
        if self._own is None and not self._broker.authenticator.required:
            name = self._leafs.options.account or GLOBAL_ACCOUNT
        account = self._broker.accounts.get(name)
        if account is None:
            self._refuse(link, connect)
            return
        link.session.identity = identity
        link.session.authenticated = True
        link.enter(account)
        peer = link.peer
        peer.name, peer.server_id = connect.name, connect.server_id
        peer.cluster, peer.domain, peer.account = connect.cluster, connect.domain, connect.remote_account
        peer.version, peer.protocol = connect.version, connect.protocol
        if not peer.compression:
            off = connect.compress_mode == compression.OFF
            peer.compression = compression.OFF if off else compression.NOT_SUPPORTED
        peer.isolated = peer.isolated or connect.isolate
        peer.spoke = connect.is_hub
        peer.info_seen = True
        link.headers = link.parser.headers_allowed and connect.headers
        link.keepalive.round_trip_s = max(self._broker.now() - link.session.started, 1e-9)
        self._replace_former(link)
        if account.has_all_links():
            self._refuse_one_more(link, connect)
            return
        permissions = identity.permissions or Permissions()
        try:
            link_rules = self._rules(link, connect, permissions)
        except PermissionRuleError as error:
            self._leafs.violate(link, str(error))
            return
        apply_amounts(self._broker, link)
        link.send(self._confirmation(link, permissions))
        self._leafs.admit(link, link_rules)
        plan_end(self._broker, link)

    def _replace_former(self, link: LeafConnection) -> None:
        """End the link that the same server had before: the spoke has noticed its end earlier than we."""
        peer = link.peer
        if not (peer.name and peer.account):
            return
        who = (peer.name, peer.cluster, peer.account)
        for other in list(link.account.links.values()):
            known = other.peer
            if known.remote is None and (known.name, known.cluster, known.account) == who:
                _log.warning("%s - Replacing connection from same server", link)
                self._broker.close(other, CloseReason.DUPLICATE_LEAF, CloseReason.DUPLICATE_LEAF.encode())

    def _confirmation(self, link: LeafConnection, permissions: Permissions) -> bytes:
        return self._info(
            link,
            self._found_at(link),
            connect_info=True,
            remote_account=link.account.name,
            acc_is_sys=link.account.is_system,
            import_=_told(permissions.subscribe),
            export=_told(permissions.publish),
        )

    def _rules(self, link: LeafConnection, connect: login.LeafConnect, permissions: Permissions) -> LinkRules:
        """Return the rules; what the spoke may subscribe to goes out, what it may publish comes in."""
        return LinkRules(
            combined(permissions.subscribe, tuple(connect.deny_pub)),
            permissions.publish,
            self._leafs.built_in_denials(link),
            responses=permissions.allow_responses,
            max_payload=self._leafs.max_payload(link),
        )


def _own_authenticator(broker: Broker, leafs: Leafs) -> BrokerAuthenticator | None:
    """Return what knows the users of `leafnodes { authorization }`, None if there is no such block."""
    options = leafs.options
    account = options.account or GLOBAL_ACCOUNT
    users = options.users
    if options.username:
        users = (User(name=options.username, password=options.password, account=account),)
    elif options.nkey:
        users = (User(nkey=options.nkey, account=account),)
    if not users:
        return None
    return ClientAuthenticator(
        replace(
            broker.options,
            authorization=Authorization(users=users),
            websocket=None,
            tls=options.tls,
            trust=None,
        )
    )


def _credentials(link: LeafConnection, connect: login.LeafConnect) -> ClientCredentials:
    session = link.session
    return ClientCredentials(
        user=connect.user,
        password=connect.password,
        token=connect.auth_token,
        nkey=connect.nkey,
        jwt=connect.jwt,
        signature=connect.sig,
        host=session.ip,
        connection_type=ConnectionType.LEAFNODE,
        nonce=session.nonce,
        peer=peer_names(session.peer_certificate) if session.peer_certificate is not None else None,
    )


def _told(rules: SubjectRules) -> login.PeerRules | None:
    if not rules.allow and not rules.deny:
        return None
    return login.PeerRules(allow=list(rules.allow) if rules.allow else None, deny=list(rules.deny) or None)


def _is_at_least(version: str, least: str) -> bool:
    found, wanted = _VERSION.match(version), _VERSION.match(least)
    if found is None or wanted is None:
        return False
    return [int(part) for part in found.groups()] >= [int(part) for part in wanted.groups()]
