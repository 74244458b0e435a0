"""Spark believes an offer of Arrow only if it comes from the server that it is connected to."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Iterator
from typing import Any

import nats
import pytest

from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, ServerAddress
from millstream.tables.readers.arrow import Offer, _doubt, find_offer
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.security.lying_server import Client, LyingServer

SUBJECT = "$MILLSTREAM.ARROW.INFO"


def link_to(url: str) -> BlockingLink:
    return BlockingLink(LinkOptions(servers=(ServerAddress.parse(url),), request_timeout_s=PATIENCE_S))


def test_the_offer_of_a_millstream_is_believed() -> None:
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True) as server, link_to(server.client_url) as link:
        offer = find_offer(link)
    assert isinstance(offer, Offer)
    assert offer.url.startswith("http://127.0.0.1:")
    assert offer.ticket


@pytest.mark.parametrize("kind", ServerKind)
async def test_somebody_in_the_account_cannot_make_an_offer(
    kind: ServerKind, caplog: pytest.LogCaptureFixture
) -> None:
    with ServerProcess(kind, jetstream=True) as server:
        attacker = await nats.connect(server.client_url)
        forged: list[bytes] = []

        async def answer(message: Any) -> None:
            for proof in ("", "0" * 64, hmac.new(b"", b"", "sha256").hexdigest()):
                forged.append(message.data)
                offer = {"version": 1, "urls": ["http://127.0.0.1:9"], "ticket": "evil", "proof": proof}
                await message.respond(json.dumps(offer).encode())

        await attacker.subscribe(SUBJECT, cb=answer)
        await attacker.flush()

        def ask() -> list[Offer | None]:
            with link_to(server.client_url) as link:
                return [find_offer(link) for _ in range(20)]

        offers = await asyncio.to_thread(ask)
        assert forged
        await attacker.close()
    assert all(offer is None or offer.ticket != "evil" for offer in offers)
    if kind is ServerKind.NATS_SERVER:
        assert offers == [None] * 20
        assert "it is not signed by the server" in caplog.text


def test_an_offer_to_one_connection_is_none_for_another() -> None:
    """An offer is signed for the inbox and the key of its requester, so an eavesdropper cannot use it."""
    with (
        ServerProcess(ServerKind.MILLSTREAM, jetstream=True) as server,
        link_to(server.client_url) as one,
        link_to(server.client_url) as other,
    ):
        question = one.send_request(SUBJECT)
        seen = json.loads(one.answer_to(question).payload)
        offer = Offer(seen["urls"][0], seen["ticket"])
        assert _doubt(offer, seen["proof"], question.reply.encode(), one, ()) == ""
        assert "not signed" in _doubt(offer, seen["proof"], question.reply.encode(), other, ())
        assert "not signed" in _doubt(offer, seen["proof"], one.send_request(SUBJECT).reply.encode(), one, ())


class EncryptedLink(BlockingLink):
    encrypted = True


def test_a_connection_that_is_encrypted_takes_no_offer_that_is_not(liar: LyingServer) -> None:
    with EncryptedLink(LinkOptions(servers=(ServerAddress.parse(liar.url),))) as link:
        offer = Offer("http://127.0.0.1:81", "t")
        proof = hmac.new(link.proof_key.encode(), b"i\nhttp://127.0.0.1:81\nt", "sha256").hexdigest()
        assert _doubt(offer, proof, b"i", link, ()) == "the connection is encrypted, and this is not"


@pytest.fixture
def liar() -> Iterator[LyingServer]:
    with LyingServer() as server:
        yield server


OFFERS: dict[str, tuple[Any, Offer | None]] = {
    "of this machine": ({"urls": ["http://127.0.0.1:81"]}, Offer("http://127.0.0.1:81", "t")),
    "by another name of it": ({"urls": ["http://localhost:81"]}, Offer("http://localhost:81", "t")),
    "of another host": ({"urls": ["http://192.0.2.7:81"]}, None),
    "of an inner service": ({"urls": ["http://169.254.169.254:80"]}, None),
    "of another kind": ({"urls": ["file:///etc/passwd"]}, None),
    "without a port": ({"urls": ["http://127.0.0.1"]}, None),
    "with a strange port": ({"urls": ["http://127.0.0.1:99999"]}, None),
    "that is no address": ({"urls": ["http://[::1"]}, None),
    "with a header in the ticket": ({"urls": ["http://127.0.0.1:81"], "ticket": "t\r\nX: y"}, None),
    "of numbers": ({"urls": [7]}, None),
    "with urls that are no list": ({"urls": "http://127.0.0.1:81"}, None),
    "of another version": ({"version": 2, "urls": ["http://127.0.0.1:81"]}, None),
    "without urls": ({"urls": []}, None),
}


@pytest.mark.parametrize(("told", "expected"), OFFERS.values(), ids=OFFERS)
def test_an_offer_that_is_signed_still_has_to_be_of_the_same_machine(
    told: dict[str, Any], expected: Offer | None, liar: LyingServer
) -> None:
    with link_to(liar.url) as link:

        def answer(client: Client, subject: str, payload: bytes, reply: str) -> None:
            offer = {"version": 1, "ticket": "t", **told}
            text = "\n".join((reply, str(offer["urls"][0]) if offer["urls"] else "", offer["ticket"]))
            offer["proof"] = hmac.new(link.proof_key.encode(), text.encode(), "sha256").hexdigest()
            client.send(reply, json.dumps(offer).encode())

        liar.answers[SUBJECT] = answer
        assert find_offer(link) == expected
        if told["urls"] == ["http://192.0.2.7:81"]:
            assert find_offer(link, ["192.0.2.7"]) == Offer("http://192.0.2.7:81", "t")


@pytest.mark.parametrize("payload", [b"", b"[]", b"7", b"{", b"[" * 100_000, b'{"version":1,"urls":[null]}'])
def test_an_answer_that_is_no_offer_is_none(payload: bytes, liar: LyingServer) -> None:
    liar.answers[SUBJECT] = payload
    with link_to(liar.url) as link:
        assert find_offer(link) is None


def test_a_server_that_never_falls_silent_does_not_keep_anybody_waiting(liar: LyingServer) -> None:
    def chatter(client: Client, subject: str, payload: bytes, reply: str) -> None:
        while True:
            client.write(b"PONG\r\n" * 1000)

    liar.answers[SUBJECT] = chatter
    with BlockingLink(LinkOptions(servers=(ServerAddress.parse(liar.url),), request_timeout_s=0.5)) as link:
        assert find_offer(link) is None
