"""Publishing over `/v1/data`: base64 in, stored or refused."""

import base64

import msgspec
import pytest

from tests.kits.gateway.v1 import Gateway, Lab, MakeGateway, settings_for, with_limits
from tests.kits.reference import ServerProcess


async def stored(lab: Lab, sequence: int) -> bytes:
    link = lab.gateway.server.core.links.own
    answer = await link.api(f"STREAM.MSG.GET.{lab.stream}", {"seq": sequence})
    return base64.b64decode(answer["message"].get("data", ""))


async def test_success_means_stored(lab: Lab) -> None:
    told = await lab.gateway.good("POST", f"/v1/data/subject/{lab.subject()}", b"SGVsbG8gV29ybGQK")
    assert (told["stream"], told["seq"]) == (lab.stream, 1)
    assert await stored(lab, 1) == b"Hello World\n"


@pytest.mark.parametrize("kind", ["application/octet-stream", "text/plain", "application/json"])
async def test_the_content_type_does_not_matter(lab: Lab, kind: str) -> None:
    body = base64.b64encode(b"x" * 100)
    path = f"/v1/data/subject/{lab.subject()}"
    await lab.gateway.good("POST", path, body, headers={"content-type": kind})
    assert await stored(lab, 1) == b"x" * 100


async def test_line_ends_in_base64_are_ignored(lab: Lab) -> None:
    body = b"\r\n".join(base64.encodebytes(b"y" * 200).splitlines()) + b"\n"
    await lab.gateway.good("POST", f"/v1/data/subject/{lab.subject()}", body)
    assert await stored(lab, 1) == b"y" * 200


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"SGVsbG8", "unexpected EOF"),
        (b"SGVs bG8=", "illegal base64 data at input byte 4"),
        (b"_-8=", "illegal base64 data at input byte 0"),
        (b"SGVsbG8=SGVs", "illegal base64 data at input byte 7"),
        (b"{}", "illegal base64 data at input byte 0"),
    ],
)
async def test_what_is_not_base64_is_refused(lab: Lab, body: bytes, detail: str) -> None:
    status, told = await lab.gateway.call("POST", f"/v1/data/subject/{lab.subject()}", body)
    assert (status, told["error"]) == (
        400,
        {"code": 400, "message": "Failed to base64 decode body", "detail": detail},
    )


async def test_an_empty_message_can_not_be_sent(lab: Lab) -> None:
    refused = await lab.gateway.refused("POST", f"/v1/data/subject/{lab.subject()}", b"")
    assert refused == (400, 400, "Base64 decode resulted in empty body")


@pytest.mark.parametrize("subject", ["nobody.listens", "some.*", "*"])
async def test_a_subject_of_no_stream_is_http_400_with_code_500(gateway: Gateway, subject: str) -> None:
    status, told = await gateway.call("POST", f"/v1/data/subject/{subject}", b"eA==")
    assert (status, told["error"]) == (
        400,
        {
            "code": 500,
            "message": f"Unable to publish message to {subject}",
            "detail": "nats: no responders available for request",
        },
    )


@pytest.mark.parametrize(
    "subject",
    [
        "a%20b",
        "a%0D%0APUB%20x%200",
        "a%09b",
        "a_b",
        "%3E",
        "a.%3E",
        "$JS.API.INFO",
        "a..b",
        ".a",
        "a.",
        "a%00b",
    ],
)
async def test_illegal_subjects_never_reach_nats(plain_gateway: Gateway, subject: str) -> None:
    refused = await plain_gateway.refused("POST", f"/v1/data/subject/{subject}", b"eA==")
    assert refused == (400, 400, "Invalid subject string")


async def test_subjects_may_have_other_letters(gateway: Gateway, lab: Lab) -> None:
    path = f"/v1/admin/stream/{lab.stream}/subject"
    await gateway.good("PUT", path, {"subjects": [f"{lab.stream}.größe-1"]})
    await gateway.good("POST", f"/v1/data/subject/{lab.stream}.gr%C3%B6%C3%9Fe-1", b"eA==")
    assert await stored(lab, 1) == b"x"


async def test_messages_beyond_the_streams_limit_are_refused(lab: Lab) -> None:
    await lab.gateway.good("PUT", f"/v1/admin/stream/{lab.stream}/limit", {"max_msg_size": 10})
    path = f"/v1/data/subject/{lab.subject()}"
    status, told = await lab.gateway.call("POST", path, base64.b64encode(b"x" * 11))
    assert (status, told["error"]["code"]) == (400, 500)
    assert told["error"]["detail"] == "nats: message size exceeds maximum allowed"


async def test_messages_beyond_max_payload_are_refused(lab: Lab) -> None:
    path = f"/v1/data/subject/{lab.subject()}"
    status, told = await lab.gateway.call("POST", path, base64.b64encode(b"x" * (1024 * 1024 + 1)))
    assert (status, told["error"]["code"]) == (400, 500)
    assert told["error"]["detail"] == "nats: maximum payload exceeded"


async def test_bodies_beyond_the_limit_are_not_read(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = with_limits(settings_for(js_server.client_url), max_body=1000)
    gateway = await start_gateway(settings)
    assert (await gateway.refused("POST", "/v1/data/subject/x", b"a" * 1001))[:2] == (413, 413)

    async def in_pieces() -> object:
        for _ in range(11):
            yield b"a" * 100

    answer = await gateway.client.post("/v1/data/subject/x", content=in_pieces())
    assert answer.status_code == 413


async def test_without_strict_statuses_failures_have_http_s_own(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = msgspec.structs.replace(settings_for(js_server.client_url), strict=False)
    gateway = await start_gateway(settings)
    refused = await gateway.refused("POST", "/v1/data/subject/nobody.listens", b"eA==")
    assert refused == (404, 404, "Unable to publish message to nobody.listens")
    refused = await gateway.refused("GET", "/v1/admin/stream/nobody")
    assert refused == (404, 404, "Unable fetch stream nobody info")
    assert (await gateway.refused("POST", "/v1/admin/stream", {"name": "a_b"}))[0] == 400
    body = {"stream": 1, "consumer": 1}
    assert (await gateway.refused("POST", "/v1/data/stream/nobody/consumer/c/ack", body))[0] == 409


async def test_relaxed_names_are_what_nats_takes(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = msgspec.structs.replace(settings_for(js_server.client_url), relaxed_names=True)
    gateway = await start_gateway(settings)
    body = {"name": "with-dash_and_more", "subjects": ["relaxed_names.>"]}
    await gateway.good("POST", "/v1/admin/stream", body)
    await gateway.good("POST", "/v1/data/subject/relaxed_names.x", b"eA==")
    refused = await gateway.refused(
        "POST", "/v1/data/subject/$JS.API.STREAM.DELETE.with-dash_and_more", b"eA=="
    )
    assert refused == (400, 400, "Invalid subject string")
    await gateway.good("DELETE", "/v1/admin/stream/with-dash_and_more")
