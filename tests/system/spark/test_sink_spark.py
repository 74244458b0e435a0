"""Tables written into streams by Spark itself: batches, queries started again, errors with a cause."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tests.kits.spark.source import Lab, run_to_end

pytestmark = [
    pytest.mark.timeout(600),
]  # a busy machine takes a minute for what is seconds on a quiet one


@pytest.fixture
def sink(lab: Lab) -> Callable[..., dict[str, str]]:
    """Options of a write to this server."""

    def options(**fields: str) -> dict[str, str]:
        return {"nats.servers": lab.server.client_url, **fields}

    return options


def stored(lab: Lab, stream: str) -> list[tuple[str, dict[str, str], bytes]]:
    """Subject, headers and payload of all there is."""
    state = lab.link.api(f"STREAM.INFO.{stream}")["state"]
    found = []
    for sequence in range(state["first_seq"], state["last_seq"] + 1):
        message = lab.link.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence})["message"]
        block = base64.b64decode(message.get("hdrs", "")).decode()
        headers = dict(line.split(": ", 1) for line in block.split("\r\n")[1:] if line)
        found.append((message["subject"], headers, base64.b64decode(message.get("data", ""))))
    return found


def test_a_table_is_written_and_overwritten(
    spark: Any, lab: Lab, sink: Callable[..., dict[str, str]]
) -> None:
    stream = lab.stream()
    rows = spark.range(0, 500, 1, 2).selectExpr(
        f"concat('{stream}.', id % 3) subject",
        "cast(id as string) data",
        "map('Kind', array('test', 'row')) headers",
    )
    rows.write.format("jetstream").options(**sink()).mode("append").save()
    first = stored(lab, stream)
    assert sorted(int(payload) for _, _, payload in first) == list(range(500))
    assert {subject for subject, _, _ in first} == {f"{stream}.{number}" for number in range(3)}
    assert {headers["Kind"] for _, headers, _ in first} == {"row"}  # of two lines with a name, the last
    assert len({headers["Nats-Msg-Id"] for _, headers, _ in first}) == 500

    rows.limit(10).write.format("jetstream").options(**sink()).mode("append").save()
    assert len(stored(lab, stream)) == 510  # another write has other ids

    overwriting = rows.limit(7).write.format("jetstream").mode("overwrite")
    with pytest.raises(PySparkException, match="allowPurge=true"):
        overwriting.options(**sink(stream=stream)).save()
    assert len(stored(lab, stream)) == 510
    overwriting.options(**sink(stream=stream, allowPurge="true")).save()
    assert len(stored(lab, stream)) == 7


@pytest.mark.soak
@pytest.mark.parametrize("guarantee", ["dedupe", "fenced"])
def test_a_query_that_is_started_again_copies_each_message_once(
    spark: Any, lab: Lab, sink: Callable[..., dict[str, str]], checkpoint: str, guarantee: str
) -> None:
    origin, copy = lab.stream(), lab.stream(allow_atomic=True)
    lab.fill(origin, 300)
    fields = {"deliveryGuarantee": guarantee}
    if guarantee == "fenced":
        fields["fenceSubject"] = f"{copy}.fence"

    def run_query() -> None:
        writer = (
            spark.readStream.format("jetstream")
            .options(**sink(subscribe=origin, startingOffsets="earliest", maxOffsetsPerTrigger="100"))
            .load()
            .selectExpr(f"concat('{copy}.', seq) subject", "headers", "data", "time")
            .writeStream.format("jetstream")
            .options(**sink(**fields))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
        )
        run_to_end(writer.start)

    for more in (0, 50):
        lab.fill(origin, more)
        run_query()
        run_query()  # finds nothing new
        rows = [row for row in stored(lab, copy) if ".fence." not in row[0]]
        assert sorted(int(subject.rpartition(".")[2]) for subject, _, _ in rows) == list(range(1, 301 + more))


@pytest.mark.soak
def test_a_query_that_is_started_again_goes_on(
    spark: Any, lab: Lab, sink: Callable[..., dict[str, str]], checkpoint: str
) -> None:
    origin, copy = lab.stream(), lab.stream()
    for already in (0, 40):
        lab.fill(origin, 40)
        query = (
            spark.readStream.format("jetstream")
            .options(**sink(subscribe=origin, startingOffsets="earliest"))
            .load()
            .drop("subject")
            .writeStream.format("jetstream")
            .options(**sink(subject=f"{copy}.all", stream=copy))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = stored(lab, copy)
        assert [headers["Nats-Msg-Id"] for _, headers, _ in rows] == [
            f"{origin}:{sequence}" for sequence in range(1, already + 41)
        ]
        assert query.lastProgress["sink"]["numOutputRows"] in (40, -1)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (["'x' data"], {}, "needs a column subject, or the option subject"),
        (["'x' subject", "1.5 data"], {}, "data can not be decimal"),
        (["'x' data", "1 amount"], {"subject": "x"}, "no column 'amount'"),
        (["'x' data"], {"subject": "nobody.takes.this"}, "no stream takes the subject nobody.takes.this"),
        (["'x' data"], {"subject": "x", "publishWindow": "7"}, "did you mean 'publish.window'"),
        (["'x' data"], {"subject": "x", "deliveryGuarantee": "fenced"}, "need each other"),
        (["'a b' subject", "'x' data"], {}, r"row 0 of partition 0 of batch 0 \(subject 'a b'\)"),
        (["'x.y' subject", "'x' data"], {}, "no stream takes this subject"),
    ],
)
def test_what_can_not_be_written_is_told_with_its_cause(
    spark: Any,
    lab: Lab,
    sink: Callable[..., dict[str, str]],
    columns: list[str],
    options: dict[str, str],
    reason: str,
) -> None:
    rows = spark.range(0, 1, 1, 1).selectExpr(*columns)
    with pytest.raises(PySparkException, match=reason):
        rows.write.format("jetstream").options(**sink(**options)).mode("append").save()
