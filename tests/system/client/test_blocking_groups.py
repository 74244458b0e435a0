"""Consumer groups of a program without an event loop."""

from collections.abc import Iterator

import pytest

from millstream.base.ids import nuid
from millstream.client import BlockingClient, ClientClosed, GroupNotFound, connect_blocking
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess


@pytest.fixture
def client(js_server: ServerProcess) -> Iterator[BlockingClient]:
    with connect_blocking(js_server.client_url) as connected:
        yield connected


def test_a_group_is_made_consumed_and_deleted(client: BlockingClient) -> None:
    stream = f"S{nuid()}"
    link = client._client.connection
    create = {"name": stream, "subjects": [f"{stream}.*"]}
    client._thread.run(link.api(f"STREAM.CREATE.{stream}", create))
    group = client.groups.create_elastic(stream, "g", 2, filters=[(f"{stream}.*", [1])])
    assert group.add("m1", "m2") == ["m1", "m2"]
    assert group.drop("m2") == ["m1"]
    for number in range(5):
        client.publish(f"{stream}.k", str(number).encode())
    with group.consume("m1") as messages:
        first = messages.next(PATIENCE_S)
        assert (first.data, first.subject, first.deliveries) == (b"0", f"{stream}.k", 1)
        first.in_progress()
        first.nak()
        got = []
        for message in messages:
            got.append(int(message.data))
            message.ack()
            if len(got) == 4:
                break
        last = messages.next(PATIENCE_S)
        last.term("enough")
        with pytest.raises(TimeoutError):
            messages.next(0.05)
        assert (got, last.data) == ([0, 1, 2, 3], b"4")
        (state,) = group.members()
        assert (state.name, state.is_active) == ("m1", True)
        group.step_down("m1")
    with pytest.raises(ClientClosed):
        messages.next()
    assert list(messages) == []
    group.set_mappings({"m1": [0], "m2": [1]})
    group.clear_mappings()
    assert [each.name for each in client.groups.list(stream)] == ["g"]
    group.delete()
    with pytest.raises(GroupNotFound):
        group.config()
    static = client.groups.create_static(stream, "s", 1, members=["m1"])
    assert static.config().members == ["m1"]
    client.groups.static(stream, "s").delete()
    client._thread.run(link.api(f"STREAM.DELETE.{stream}"))
