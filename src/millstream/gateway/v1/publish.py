"""Publishing: the body is base64; the answer is an envelope, sent when JetStream has stored the message."""

from __future__ import annotations

import binascii
import re
from typing import Final

from millstream.gateway.core import Core
from millstream.gateway.errors import FAILURES
from millstream.gateway.exchange import Exchange
from millstream.gateway.v1.answers import quoted, refuse, refuse_for
from millstream.gateway.v1.rules import Rules
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, NoResponders

_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]")


class PublishRoute:
    """The handler of `POST /v1/data/subject/{subjectName}`."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def publish(self, exchange: Exchange, core: Core) -> None:
        body = await exchange.body()
        subject = exchange.parameters[0]
        if not self._rules.is_publishable(subject):
            await refuse(exchange, 400, "Invalid subject string", f"subject {subject!r} is not allowed")
            return
        if b"\n" in body or b"\r" in body:
            body = body.replace(b"\r", b"").replace(b"\n", b"")
        try:
            payload = binascii.a2b_base64(body, strict_mode=True)
        except binascii.Error:
            await refuse(exchange, 400, "Failed to base64 decode body", _what_is_wrong(body))
            return
        if not payload:
            await refuse(exchange, 400, "Base64 decode resulted in empty body", "")
            return
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            if "*" in subject or ">" in subject:
                raise NoResponders(subject)  # no stream stores it, although the server would accept it
            ack = await link.store(subject, payload)
        except FAILURES as error:
            if isinstance(error, LinkApiError) and error.err is Err.MESSAGE_EXCEEDS_MAXIMUM:
                error = LinkApiError(error.code, error.err_code, f"nats: {error.description}")
            message = f"Unable to publish message to {subject}"
            await refuse_for(exchange, core, message, error, status=400, code=500)
            return
        core.published.inc()
        duplicate = ',"duplicate":true' if ack.duplicate else ""
        told = (
            f'{{"success":true,"request_id":{quoted(exchange.request_id)},'
            f'"stream":{quoted(ack.stream)},"seq":{ack.seq}{duplicate}}}'
        )
        await exchange.answer(200, told.encode())


def _what_is_wrong(body: bytes) -> str:
    """Return the error of a base64 body in Go's words."""
    content = body.rstrip(b"=")
    match = _NOT_BASE64.search(content)
    if match is not None:
        return f"illegal base64 data at input byte {match.start()}"
    if len(body) % 4 and len(body) - len(content) <= 2 and len(content) % 4 != 1:
        return "unexpected EOF"
    return f"illegal base64 data at input byte {len(content)}"
