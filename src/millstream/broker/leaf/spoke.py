"""The spoke's side of the login: answer the hub's INFO with CONNECT, and join the account when it agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason
from millstream.broker.close_reason import CloseReason
from millstream.broker.info import SERVER_VERSION
from millstream.broker.leaf import compression, login
from millstream.broker.leaf.rules import LinkRules, combined
from millstream.broker.options import RemoteOptions

if TYPE_CHECKING:
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.leaf.leafs import Leafs

_CONFIRM_S: Final = 2.0  # for the hub's answer to CONNECT


def take_info(leafs: Leafs, link: LeafConnection, info: login.LeafInfo) -> None:
    """Take the first INFO, the answer to CONNECT, or a change; raise BadLogin or PermissionRuleError."""
    peer = link.peer
    remote = peer.remote
    assert remote is not None
    first = not peer.info_seen
    if first:
        login.check_first_info(info)
        if not peer.compression and _compress(leafs, link, remote.options, info):
            return  # another INFO follows
        peer.info_seen = True
        peer.name = info.server_name or info.server_id
        peer.protocol = info.proto
        peer.server_id, peer.cluster, peer.domain = info.server_id, info.cluster, info.domain
        link.headers = link.parser.headers_allowed and info.headers
    urls = info.ws_connect_urls if peer.websocket else info.leafnode_urls
    if urls:
        remote.discovered(urls)
    if info.max_payload > 0:
        peer.max_payload = info.max_payload
    if info.import_ is not None:
        peer.imports = info.import_.as_rules()
    if info.export is not None:
        peer.exports = info.export.as_rules()
    if info.remote_account:
        peer.account = info.remote_account
    if link.ready:
        if info.import_ is not None or info.export is not None:
            link.take_rules(_rules(leafs, link))
        return
    if first:
        link.session.stop_auth_timer()
        link.send(_connect(link, remote.options, info.nonce))
        link.keepalive.round_trip_s = max(leafs.broker.now() - link.session.started, 1e-9)
        link.session.auth_timer = leafs.broker.turns.later(_CONFIRM_S, _unconfirmed, leafs, link)
    if info.connect_info or (first and not info.info_on_connect):
        link.session.stop_auth_timer()
        leafs.admit(link, _rules(leafs, link))
        remote.established()


def _compress(leafs: Leafs, link: LeafConnection, options: RemoteOptions, info: login.LeafInfo) -> bool:
    """Agree on compression; return True if the link is compressed from now on."""
    elapsed_s = leafs.broker.now() - link.session.started
    other = compression.OFF if link.peer.deflated else info.compression
    mode = link.peer.compression = compression.agree(options.compression, other, elapsed_s)
    if not compression.is_wanted(mode):
        return False
    identity = leafs.broker.identity
    own = login.LeafInfo(
        server_id=identity.server_id,
        server_name=identity.server_name,
        version=SERVER_VERSION,
        proto=login.LINK_PROTOCOL,
        go="millstream",
        headers=link.parser.headers_allowed,
        max_payload=leafs.broker.options.max_payload,
        client_id=link.cid,
        domain=identity.jetstream_domain or "",
        compression=compression.told(options.compression, mode),
    )
    link.send(b"INFO %b \r\n" % msgspec.json.encode(own))
    compression.begin(link, lambda text: leafs.violate(link, text))
    return True


def _unconfirmed(leafs: Leafs, link: LeafConnection) -> None:
    link.session.auth_timer = None
    leafs.violate(link, "Stale Leaf Node Connection - Closing", CloseReason.STALE_CONNECTION)


def _rules(leafs: Leafs, link: LeafConnection) -> LinkRules:
    peer = link.peer
    options: RemoteOptions = peer.remote.options
    return LinkRules(
        combined(peer.exports, options.deny_exports),
        combined(peer.imports, options.deny_imports),
        leafs.built_in_denials(link),
        max_payload=leafs.max_payload(link),
    )


def _connect(link: LeafConnection, options: RemoteOptions, nonce: str) -> bytes:
    broker, remote = link.broker, link.peer.remote
    identity = broker.identity
    fields = login.LeafConnect(
        version=SERVER_VERSION,
        server_id=identity.server_id,
        domain=identity.jetstream_domain or "",
        name=identity.server_name,
        is_hub=options.hub,
        headers=link.headers,
        jetstream=identity.jetstream_domain is not None,
        deny_pub=list(options.deny_imports),
        isolate=options.request_isolation,
        compress_mode=link.peer.compression,
        remote_account=link.account.name,
        protocol=login.LINK_PROTOCOL,
        **_credentials(options, nonce),
        **remote.url_credentials(),
    )
    return b"CONNECT %b\r\n" % msgspec.json.encode(fields)


def _credentials(options: RemoteOptions, nonce: str) -> dict[str, str]:
    """Return the proof that the nonce asks for; raise BadLogin if the files are no use."""
    if not options.creds_file and not options.nkey_seed:
        return {}
    from millstream.base.seeds import Signer, read_credentials  # imports cryptography, which is slow

    try:
        if options.creds_file:
            with open(options.creds_file) as file:
                token, seed = read_credentials(file.read())
            return {"jwt": token, "sig": Signer(seed).sign(nonce.encode())}
        signer = Signer(options.nkey_seed)
        return {"nkey": signer.public_key, "sig": signer.sign(nonce.encode())}
    except OSError as error:
        raise login.BadLogin(
            f"the credentials in {options.creds_file} cannot be read: {file_reason(error)}"
        ) from None
    except (MillstreamError, ValueError) as error:
        raise login.BadLogin(f"the credentials of a remote cannot be used: {error}") from None
