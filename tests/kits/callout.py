"""The service that a server asks who may log in (auth callout): reads requests, and signs answers.

service = CalloutService(client, Key("A", "issuer"))
request = service.next_request()
service.allow(request, "APP", name="ann")
"""

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

import nacl.public

from millstream.base.nkeys import KeyKind, decode, encode
from tests.kits.conformance.clients import Message, publish
from tests.kits.operator import UNLIMITED, Key, token
from tests.kits.wire import WireClient

SUBJECT = "$SYS.REQ.USER.AUTH"
XKEY_HEADER = "Nats-Server-Xkey"
_VERSION = b"xkv1"


class CurveKey:
    """A pair of keys to encrypt with."""

    def __init__(self, name: str) -> None:
        self._key = nacl.public.PrivateKey(hashlib.sha256(f"X {name}".encode()).digest())
        self.public = encode(KeyKind.CURVE, bytes(self._key.public_key))

    def open(self, data: bytes, sender: str) -> bytes:
        assert data.startswith(_VERSION)
        return self._box(sender).decrypt(data[len(_VERSION) :])

    def seal(self, data: bytes, receiver: str) -> bytes:
        return _VERSION + bytes(self._box(receiver).encrypt(data, os.urandom(24)))

    def _box(self, other: str) -> nacl.public.Box:
        return nacl.public.Box(self._key, nacl.public.PublicKey(decode(other)[1]))


@dataclass
class CalloutRequest:
    reply: str
    claims: dict[str, Any]  # of the whole token
    headers: dict[str, str]
    server_xkey: str = ""

    @property
    def body(self) -> Any:
        return self.claims["nats"]

    @property
    def user(self) -> str:
        return str(self.body["user_nkey"])

    @property
    def server(self) -> str:
        return str(self.body["server_id"]["id"])


class CalloutService:
    """Answers for `issuer`; encrypts if it has a curve key."""

    def __init__(self, client: WireClient, issuer: Key, curve: CurveKey | None = None) -> None:
        self.client = client
        self.issuer = issuer
        self.curve = curve
        client.send(f"SUB {SUBJECT} callout\r\n".encode())
        assert client.round_trip() == b""

    def next_request(self) -> CalloutRequest:
        """Return the request that comes next."""
        message = Message.read(self.client.read_frame())
        data, sender = message.payload, ""
        if self.curve is not None:
            sender = message.headers[XKEY_HEADER]
            data = self.curve.open(data, sender)
        return CalloutRequest(message.reply, claims_of(data.decode()), message.headers, sender)

    def user_token(self, request: CalloutRequest, account: str = "", **changes: Any) -> str:
        """Return the token of a user; changes are claims (`exp`, …), its key (`about`) or of its body."""
        signer: Key = changes.pop("signer", self.issuer)
        claims = {name: changes.pop(name) for name in ("exp", "nbf", "iat", "name") if name in changes}
        subject = changes.pop("about", request.user)
        limits = {} if changes.pop("scoped", False) else UNLIMITED
        return token(signer, "user", subject, {**limits, **changes}, aud=account, **claims)

    def allow(self, request: CalloutRequest, account: str = "", **changes: Any) -> None:
        """Let a user in; changes are as in `user_token`."""
        self.answer(request, jwt=self.user_token(request, account, **changes))

    def refuse(self, request: CalloutRequest, error: str) -> None:
        self.answer(request, error=error)

    def answer(self, request: CalloutRequest, **body: Any) -> None:
        """Answer with a signed token; `about`, `aud` and `signer` replace the right ones."""
        signer: Key = body.pop("signer", self.issuer)
        encrypts = body.pop("encrypted", self.curve is not None)
        subject, audience = body.pop("about", request.user), body.pop("aud", request.server)
        data = token(signer, "authorization_response", subject, body, aud=audience).encode()
        if encrypts:
            assert self.curve is not None
            data = self.curve.seal(data, request.server_xkey)
        self.send(request, data)

    def send(self, request: CalloutRequest, data: bytes) -> None:
        """Answer with these bytes."""
        self.client.send(publish(request.reply, data))
        self.client.round_trip()


def claims_of(text: str) -> Any:
    """Return the claims of a token, unchecked."""
    part = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
