"""Access to streams over HTTP: every kind of login, and the permissions of each user."""

import asyncio
import base64
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import bcrypt
import nats
import nkeys
import pytest

from millstream import Server
from millstream.config.load import load
from millstream.server.reload import reload_configuration
from tests.kits.arrow.endpoint import ask, fill, parse, publish, read
from tests.kits.certs import CertificateAuthority
from tests.kits.patience import PATIENCE_S


@asynccontextmanager
async def serving(folder: Path, text: str, **options: Any) -> AsyncIterator[Server]:
    """A server with this configuration and a stream S of three messages, made by the user `admin`."""
    config = folder / "server.conf"
    config.write_text(f'listen: "127.0.0.1:-1", jetstream {{ store_dir: "{folder}/store" }}\n{text}')
    async with Server(options=load(config)) as server:
        admin = await nats.connect(server.client_url, **options)
        await fill(admin, "S", 3)
        await admin.close()
        yield server


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def status(server: Server, authorization: str = "", stream: str = "S") -> int:
    try:
        answer = await read(server.arrow_url, stream, authorization=authorization)
    except HTTPError as error:
        refused = error
    else:
        assert answer.table.num_rows == 3
        return 200
    with refused:
        if refused.code == 401:
            assert refused.headers["WWW-Authenticate"].startswith("Basic ")
        assert json.loads(refused.read())["error"]["description"]
    return refused.code


async def test_users_show_the_password_that_clients_show(tmp_path: Path) -> None:
    hashed = bcrypt.hashpw(b"b", bcrypt.gensalt(4)).decode()
    users = f'[{{user: admin, password: "p:w"}}, {{user: hashed, password: "{hashed}"}}]'
    text = f"authorization {{ users: {users} }}"
    async with serving(tmp_path, text, user="admin", password="p:w") as server:
        assert await status(server, basic("admin", "p:w")) == 200
        assert await status(server, basic("hashed", "b")) == 200
        assert await status(server, basic("hashed", hashed)) == 401
        assert await status(server, basic("admin", "p")) == 401
        assert await status(server, basic("nobody", "p:w")) == 401
        assert await status(server) == 401
        assert await status(server, "Bearer p:w") == 401
        assert await status(server, "Basic !!!") == 401
        assert await status(server, "Basic " + base64.b64encode(b"admin").decode()) == 401
        assert await status(server, "Digest x") == 401


async def test_a_token_is_taken_as_a_bearer(tmp_path: Path) -> None:
    async with serving(tmp_path, "authorization { token: secret }", token="secret") as server:
        assert await status(server, "Bearer secret") == 200
        assert await status(server, "Bearer other") == 401
        assert await status(server) == 401


async def test_nobody_is_asked_where_clients_are_not(tmp_path: Path) -> None:
    async with serving(tmp_path, "") as server:
        assert await status(server) == 200
        assert await status(server, basic("whoever", "whatever")) == 200
    guests = "authorization { users: [{user: guest, password: p}] }, no_auth_user: guest"
    (tmp_path / "guests").mkdir()
    async with serving(tmp_path / "guests", guests) as server:
        assert await status(server) == 200
        assert await status(server, basic("guest", "wrong")) == 401


async def test_reading_needs_the_permission_that_reading_over_nats_needs(tmp_path: Path) -> None:
    text = """authorization { users: [
        {user: admin, password: p}
        {user: getter, password: p, permissions: {publish: ["$JS.API.STREAM.MSG.GET.*"]}}
        {user: direct, password: p, permissions: {publish: ["$JS.API.DIRECT.GET.S"]}}
        {user: others, password: p, permissions: {publish: {deny: ["$JS.API.*.GET.S", "$JS.API.*.*.GET.S"]}}}
        {user: half, password: p, permissions: {publish: {deny: ["$JS.API.STREAM.MSG.GET.S"]}}}
        {user: some, password: p, permissions: {publish: ["$JS.API.DIRECT.GET.S.>", "$JS.API.CONSUMER.>"]}}
        {user: anything, password: p, permissions: {publish: ["$JS.API.>"]}}
        {user: deaf, password: p, permissions: {publish: ["$JS.API.>"], subscribe: {deny: ">"}}}
        {user: deafer, password: p, permissions: {subscribe: {allow: ["a.*", "b"], deny: ["b", "a.>"]}}}
        {user: answers, password: p, permissions: {allow_responses: true}}
    ] }"""

    async def statuses(server: Server, stream: str) -> dict[str, int]:
        users = ("getter", "direct", "others", "half", "some", "anything", "deaf", "deafer", "answers")
        return {user: await status(server, basic(user, "p"), stream) for user in users}

    refused = dict.fromkeys(("others", "some", "deaf", "deafer", "answers"), 403)
    async with serving(tmp_path, text, user="admin", password="p") as server:
        # Without `allow_direct` nobody gets a message by a direct get.
        assert await statuses(server, "S") == {
            **refused,
            "getter": 200,
            "anything": 200,
            "direct": 403,
            "half": 403,
        }
        admin = await nats.connect(server.client_url, user="admin", password="p")
        await admin.jetstream().update_stream(name="S", subjects=["S.>"], allow_direct=True)
        await admin.close()
        assert await statuses(server, "S") == {
            **refused,
            "getter": 200,
            "anything": 200,
            "direct": 200,
            "half": 200,
        }
        # Who may not read a stream is not told whether there is one.
        assert await status(server, basic("direct", "p"), "T") == 403
        assert await status(server, basic("anything", "p"), "T") == 404


async def test_the_spelling_of_a_domain_neither_grants_nor_bypasses(tmp_path: Path) -> None:
    """Subjects with a domain are mapped before permissions are checked, as for a client's message."""
    text = """authorization { users: [
        {user: admin, password: p}
        {user: spelled, password: p, permissions: {publish: ["$JS.hub.API.>"]}}
        {user: denied, password: p, permissions: {publish: {deny: ["$JS.API.*.*.GET.S", "$JS.API.*.GET.S"]}}}
        {user: plain, password: p, permissions: {publish: ["$JS.API.STREAM.MSG.GET.S"]}}
    ] }, jetstream { domain: hub }"""
    config = tmp_path / "server.conf"
    config.write_text(f'listen: "127.0.0.1:-1", store_dir: "{tmp_path}/store"\n{text}')
    async with Server(options=load(config)) as server:
        admin = await nats.connect(server.client_url, user="admin", password="p")
        await fill(admin, "S", 3, allow_direct=True)
        await admin.close()
        for user, over_http in (("spelled", 403), ("denied", 403), ("plain", 200)):
            assert await status(server, basic(user, "p")) == over_http, user
        for user, may in (("spelled", False), ("denied", False)):
            client = await nats.connect(server.client_url, user=user, password="p")
            request = client.request("$JS.hub.API.STREAM.MSG.GET.S", b'{"seq":1}', timeout=0.5)
            with pytest.raises(nats.errors.TimeoutError):
                await request
            assert not may
            await client.close()


async def test_a_mapping_that_leads_elsewhere_leads_elsewhere_here_too(tmp_path: Path) -> None:
    text = """accounts { A {
        jetstream: enabled, users: [{user: admin, password: p}]
        mappings { "$JS.API.STREAM.MSG.GET.S": "nowhere" }
    } }"""
    async with serving(tmp_path, text, user="admin", password="p") as server:
        assert await status(server, basic("admin", "p")) == 403


async def test_only_pinned_certificates_come_in(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    ours = authority.issue_for_loopback()
    ann, eve = authority.issue("ann"), authority.issue("eve")
    text = f"""tls {{ cert_file: "{ours.cert_file}", key_file: "{ours.key_file}"
        ca_file: "{authority.cert_file}", verify: true, pinned_certs: ["{ann.public_key_sha256}"] }}"""
    context = authority.client_context(ann)
    async with serving(tmp_path, text, tls=context) as server:
        assert await asyncio.to_thread(read_securely, server.arrow_url, context) == 3
        with pytest.raises((ConnectionError, ssl.SSLError, URLError, http.client.HTTPException)):
            await asyncio.to_thread(read_securely, server.arrow_url, authority.client_context(eve))


async def test_a_user_of_web_sockets_only_does_not_come_in_by_password(tmp_path: Path) -> None:
    text = """authorization { users: [
        {user: admin, password: p}, {user: web, password: p, allowed_connection_types: [WEBSOCKET]}
    ] }"""
    async with serving(tmp_path, text, user="admin", password="p") as server:
        assert await status(server, basic("web", "p")) == 401


async def test_another_password_ends_the_tickets_of_a_user(tmp_path: Path) -> None:
    def text(password: str) -> str:
        return (
            f"authorization {{ users: [{{user: admin, password: p}}, {{user: ann, password: {password}}}] }}"
        )

    config = tmp_path / "server.conf"
    async with serving(tmp_path, text("old"), user="admin", password="p") as server:
        start = config.read_text().partition("\n")[0] + "\n"
        ticket = await ticket_of(server, user="ann", password="old")
        assert await status(server, ticket) == 200
        config.write_text(start + text("new"))
        reload_configuration(server)
        assert await status(server, ticket) == 401


async def test_a_reload_that_revokes_ends_what_is_being_read(tmp_path: Path) -> None:
    def text(rest: str) -> str:
        return f"authorization {{ users: [{{user: admin, password: p}}, {{user: ann, password: p{rest}}}] }}"

    config = tmp_path / "server.conf"
    async with serving(tmp_path, text(""), user="admin", password="p") as server:
        client = await nats.connect(server.client_url, user="admin", password="p")
        await publish(client, "S", 400, size=100_000)  # more than sockets hold
        await client.close()
        start = config.read_text().partition("\n")[0] + "\n"
        request = Request(
            f"{server.arrow_url}/arrow/v1/streams/S", headers={"Authorization": basic("ann", "p")}
        )
        response = await asyncio.to_thread(urlopen, request, timeout=PATIENCE_S)
        config.write_text(start + text(", permissions: {publish: x}"))
        reload_configuration(server)
        with pytest.raises((http.client.IncompleteRead, OSError)):
            await asyncio.to_thread(parse, response)
        response.close()


async def ticket_of(server: Server, **options: Any) -> str:
    client = await nats.connect(server.client_url, **options)
    ticket = str((await ask(client))["ticket"])
    await client.close()
    return f"Bearer {ticket}"


async def test_an_nkey_gets_a_ticket_and_is_held_to_its_permissions(tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    pair = nkeys.from_seed(nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER))
    seed.write_bytes(bytes(pair.seed))
    public = pair.public_key.decode()
    text = f"""authorization {{ users: [
        {{user: admin, password: p}}
        {{nkey: {public}, permissions: {{
            publish: ["$MILLSTREAM.ARROW.INFO", "$JS.API.STREAM.MSG.GET.S"], subscribe: "_INBOX.>"}} }}
    ] }}"""
    async with serving(tmp_path, text, user="admin", password="p") as server:
        ticket = await ticket_of(server, nkeys_seed=str(seed))
        assert await status(server, ticket) == 200
        assert await status(server, ticket, "T") == 403
        assert await status(server, ticket[:-6]) == 401
        assert await status(server, await ticket_of(server, user="admin", password="p")) == 200


async def test_a_ticket_needs_the_permission_to_ask_for_it(tmp_path: Path) -> None:
    text = """authorization { users: [
        {user: admin, password: p}
        {user: other, password: p, permissions: {publish: "x", subscribe: "_INBOX.>"}}
    ] }"""
    async with serving(tmp_path, text, user="admin", password="p") as server:
        client = await nats.connect(server.client_url, user="other", password="p")
        with pytest.raises(nats.errors.TimeoutError):
            await client.request("$MILLSTREAM.ARROW.INFO", timeout=0.5)
        await client.close()


async def test_a_ticket_ends_with_its_user_and_follows_its_permissions(tmp_path: Path) -> None:
    def text(rest: str) -> str:
        return f"authorization {{ users: [{{user: admin, password: p}}, {rest}] }}"

    config = tmp_path / "server.conf"
    async with serving(tmp_path, text("{user: ann, password: p}"), user="admin", password="p") as server:
        start = config.read_text().partition("\n")[0] + "\n"
        ticket = await ticket_of(server, user="ann", password="p")
        assert await status(server, ticket) == 200
        config.write_text(start + text("{user: ann, password: p, permissions: {publish: x}}"))
        reload_configuration(server)
        assert await status(server, ticket) == 403
        config.write_text(start + text("{user: eve, password: p}"))
        reload_configuration(server)
        assert await status(server, ticket) == 401


def read_securely(url: str, context: ssl.SSLContext, query: str = "") -> int:
    with urlopen(
        Request(f"{url}/arrow/v1/streams/S{query}"), context=context, timeout=PATIENCE_S
    ) as response:
        return parse(response).table.num_rows


async def test_with_tls_it_is_tls_and_a_certificate_can_stand_for_a_user(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    ours = authority.issue_for_loopback()
    ann, eve = authority.issue("ann"), authority.issue("eve")
    text = f"""
        tls {{ cert_file: "{ours.cert_file}", key_file: "{ours.key_file}", ca_file: "{authority.cert_file}"
               verify_and_map: true }}
        authorization {{ users: [{{user: "CN=ann"}}] }}"""
    context = authority.client_context(ann)
    async with serving(tmp_path, text, tls=context) as server:
        assert server.arrow_url.startswith("https://")
        assert await asyncio.to_thread(read_securely, server.arrow_url, context) == 3
        with pytest.raises(HTTPError) as caught:
            await asyncio.to_thread(read_securely, server.arrow_url, authority.client_context(eve))
        caught.value.close()
        assert caught.value.code == 401
        with pytest.raises((ConnectionError, ssl.SSLError, URLError)):
            await asyncio.to_thread(read_securely, server.arrow_url, authority.client_context())


async def test_a_long_range_comes_whole_through_tls(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    ours = authority.issue_for_loopback()
    text = f'tls {{ cert_file: "{ours.cert_file}", key_file: "{ours.key_file}" }}'
    context = authority.client_context()
    async with serving(tmp_path, text, tls=context) as server:
        client = await nats.connect(server.client_url, tls=context)
        await publish(client, "S", 12_000, size=300)
        await client.close()
        assert await asyncio.to_thread(read_securely, server.arrow_url, context) == 12_003
