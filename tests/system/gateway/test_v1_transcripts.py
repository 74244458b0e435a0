"""The examples of httpmq's manual, run with curl: the first steps, and retransmission."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from millstream.base.ids import nuid
from tests.kits.gateway.v1 import Gateway, curl, curl_stream, eventually

JSON = ("--header", "Content-Type: application/json")
SECOND_NS = 1_000_000_000


class Transcript:
    """The manual's stream and consumer, under names that nobody else has."""

    def __init__(self, gateway: Gateway) -> None:
        self.url = gateway.url
        self.stream = f"testStream{nuid()}"
        self.subjects = [f"test-subject.{nuid()}.00", f"test-subject.{nuid()}.01"]
        self.consumer = "testConsumer00"

    async def told(self, *arguments: str) -> dict[str, Any]:
        return dict(json.loads(await curl(*arguments)))

    async def done(self, *arguments: str) -> None:
        assert (await self.told(*arguments))["success"] is True

    async def define(self, consumer: dict[str, Any], **limits: Any) -> None:
        stream = {"name": self.stream, "max_age": 300 * SECOND_NS, "subjects": self.subjects, **limits}
        await self.done("-X", "POST", f"{self.url}/v1/admin/stream", *JSON, "--data-raw", json.dumps(stream))
        path = f"{self.url}/v1/admin/stream/{self.stream}/consumer"
        body = {
            "max_inflight": 4,
            "mode": "push",
            "name": self.consumer,
            "filter_subject": self.subjects[1],
            **consumer,
        }
        await self.done("-X", "POST", path, *JSON, "--data-raw", json.dumps(body))

    async def publish(self, text: str) -> None:
        await self.done(
            "-X",
            "POST",
            f"{self.url}/v1/data/subject/{self.subjects[1]}",
            "--header",
            "Content-Type: text/plain",
            "--data-raw",
            base64.b64encode(text.encode()).decode(),
        )

    @property
    def subscription(self) -> str:
        here = f"{self.url}/v1/data/stream/{self.stream}/consumer/{self.consumer}"
        return f"{here}?subject_name={self.subjects[1]}"

    async def ack(self, stream: int, consumer: int) -> None:
        path = f"{self.url}/v1/data/stream/{self.stream}/consumer/{self.consumer}/ack"
        body = json.dumps({"consumer": consumer, "stream": stream})
        await self.done("-X", "POST", path, *JSON, "--data-raw", body)

    async def pending(self) -> int:
        path = f"{self.url}/v1/admin/stream/{self.stream}/consumer/{self.consumer}"
        return int((await self.told(path))["consumer"]["num_ack_pending"])

    async def remove(self) -> None:
        await self.done("-X", "DELETE", f"{self.url}/v1/admin/stream/{self.stream}")

    def line(self, sequence: dict[str, int], text: str = "Hello World\n") -> dict[str, Any]:
        return {
            "success": True,
            "stream": self.stream,
            "subject": self.subjects[1],
            "consumer": self.consumer,
            "sequence": sequence,
            "b64_msg": base64.b64encode(text.encode()).decode(),
        }


@pytest.fixture
def transcript(gateway: Gateway) -> Transcript:
    return Transcript(gateway)


async def test_the_first_steps_of_the_manual(transcript: Transcript) -> None:
    await transcript.define({})
    stream = (await transcript.told(f"{transcript.url}/v1/admin/stream/{transcript.stream}"))["stream"]
    assert stream["config"]["subjects"] == transcript.subjects
    assert stream["config"]["max_age"] == 300 * SECOND_NS
    assert stream["state"]["messages"] == 0
    path = f"{transcript.url}/v1/admin/stream/{transcript.stream}/consumer/{transcript.consumer}"
    consumer = (await transcript.told(path))["consumer"]
    assert (consumer["config"]["max_deliver"], consumer["config"]["ack_wait"]) == (-1, 30 * SECOND_NS)
    await transcript.publish("Hello World\n")
    async with curl_stream("--http2-prior-knowledge", transcript.subscription) as subscription:
        line = await subscription.line()
        assert line.items() >= transcript.line({"stream": 1, "consumer": 1}).items()
        await transcript.ack(stream=1, consumer=1)
        assert await transcript.pending() == 0
    await transcript.remove()


async def test_retransmission_as_the_manual_tells_it(transcript: Transcript) -> None:
    await transcript.define({"ack_wait": SECOND_NS, "max_retry": -1})
    await transcript.publish("Hello World\n")
    async with curl_stream("--http2-prior-knowledge", transcript.subscription) as subscription:
        attempt = 0
        while attempt < 2:  # two that come in one breath are written once
            line = await subscription.line()
            assert line["sequence"]["consumer"] > attempt
            attempt = line["sequence"]["consumer"]
            assert line.items() >= transcript.line({"stream": 1, "consumer": attempt}).items()
        await transcript.ack(stream=1, consumer=attempt)
        assert await transcript.pending() == 0
        await transcript.publish("the next\n")
        line = await subscription.line()
        while line["sequence"]["stream"] == 1:  # it may have been on its way when it was acknowledged
            line = await subscription.line()
        assert line.items() >= transcript.line(line["sequence"], "the next\n").items()
    await transcript.remove()


async def test_max_retry_counts_every_delivery(transcript: Transcript) -> None:
    await transcript.define({"ack_wait": SECOND_NS // 2, "max_retry": 3})
    await transcript.publish("Hello World\n")
    async with curl_stream(transcript.subscription) as subscription:
        attempts = [(await subscription.line())["sequence"]["consumer"]]
        while attempts[-1] < 3:  # two that come in one breath are written once
            attempts.append((await subscription.line())["sequence"]["consumer"])
        assert attempts == sorted({*attempts, 3})

        async def given_up() -> bool:
            return await transcript.pending() == 0

        await eventually(given_up, "it is still tried")
        await transcript.publish("the next\n")
        assert (await subscription.line())["sequence"]["stream"] == 2
    await transcript.remove()


async def test_retransmission_ends_with_the_streams_retention(transcript: Transcript) -> None:
    """The manual's ten tries a minute apart with five minutes of retention, sixty times as fast."""
    await transcript.define({"ack_wait": SECOND_NS, "max_retry": 10})
    await transcript.publish("Hello World\n")
    async with curl_stream("--http2-prior-knowledge", transcript.subscription) as subscription:
        tries = 0
        await subscription.line()
        tries += 1
        limits = json.dumps({"max_age": 5 * SECOND_NS // 2})
        path = f"{transcript.url}/v1/admin/stream/{transcript.stream}/limit"
        await transcript.done("-X", "PUT", path, *JSON, "--data-raw", limits)

        async def gone() -> bool:
            return await transcript.pending() == 0

        await eventually(gone, "it is still tried")
        path = f"{transcript.url}/v1/admin/stream/{transcript.stream}"
        assert (await transcript.told(path))["stream"]["state"]["messages"] == 0
        await transcript.publish("the end\n")
        while (await subscription.line())["sequence"]["stream"] == 1:
            tries += 1
    assert 1 <= tries < 10
    await transcript.remove()


@pytest.mark.parametrize("option", ["--http1.1", "--http2", "--http2-prior-knowledge"])
async def test_every_version_of_http_on_one_port(gateway: Gateway, option: str) -> None:
    told = await curl(option, "-i", f"{gateway.url}/v1/data/ready")
    versions = {"--http1.1": ["HTTP/1.1 200"], "--http2": ["HTTP/1.1 200"]}
    for line in versions.get(option, ["HTTP/2 200"]):
        assert line in told
    assert '"success":true' in told


@pytest.mark.parametrize("option", ["--http1.1", "--http2", "--http2-prior-knowledge"])
async def test_a_subscription_over_every_version_of_http(transcript: Transcript, option: str) -> None:
    await transcript.define({})
    async with curl_stream(option, transcript.subscription) as subscription:
        await transcript.publish("Hello World\n")
        line = await subscription.line()
        assert line.items() >= transcript.line({"stream": 1, "consumer": 1}).items()
    await transcript.publish("the next\n")
    async with curl_stream(option, transcript.subscription) as subscription:  # at once, and it is free
        line = await subscription.line()
        while line["sequence"]["stream"] == 1:  # on a machine so busy that its half minute is over
            line = await subscription.line()
        assert line.items() >= transcript.line(line["sequence"], "the next\n").items()
    await transcript.remove()


async def test_a_large_upload_over_http2(transcript: Transcript, tmp_path: Path) -> None:
    await transcript.define({})
    body = tmp_path / "body"
    body.write_bytes(base64.b64encode(b"z" * 700_000))
    path = f"{transcript.url}/v1/data/subject/{transcript.subjects[1]}"
    await transcript.done("--http2-prior-knowledge", "-X", "POST", path, "--data-binary", f"@{body}")
    await transcript.remove()
