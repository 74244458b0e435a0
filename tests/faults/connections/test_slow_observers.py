"""A client that listens to everything and reads nothing: JetStream's readers must not wait for it."""

import json

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.wire import WireClient

BODY = b"x" * 200_000
COUNT = 30  # six megabytes, more than the sockets of one connection buffer


def send_json(reader: WireClient, subject: str, reply: str, body: object) -> None:
    text = json.dumps(body)
    reader.send(f"PUB {subject} {reply} {len(text)}\r\n{text}\r\n".encode())


def create(reader: WireClient, subject: str, config: object) -> None:
    send_json(reader, f"$JS.API.{subject}", "answer", config)
    assert b'"error"' not in reader.read_frame()


def test_no_reader_of_a_stream_waits_for_it() -> None:
    # It is never disconnected, so whoever waits for it waits for ever.
    config = "write_deadline: 10h\nmax_pending: 1GB\n"
    with (
        ServerProcess(ServerKind.MILLSTREAM, config=config, jetstream=True) as server,
        WireClient.connect(server.port, receive_buffer=4096) as deaf,
        WireClient.connect(server.port) as reader,
    ):
        deaf.handshake()
        deaf.round_trip(b"SUB > 1\r\n")
        reader.handshake()
        reader.round_trip(b"SUB answer 1\r\nSUB pulled.* 2\r\nSUB direct.* 3\r\n")
        create(reader, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "allow_direct": True})
        for name, more in (("pushes", {"deliver_subject": "pushed"}), ("pulls", {})):
            settings = {"durable_name": name, "ack_policy": "none", **more}
            create(reader, f"CONSUMER.DURABLE.CREATE.S.{name}", {"stream_name": "S", "config": settings})
        for _ in range(COUNT):
            reader.round_trip(b"PUB s %d\r\n%b\r\n" % (len(BODY), BODY))

        batch = {"batch": COUNT}
        send_json(reader, "$JS.API.CONSUMER.MSG.NEXT.S.pulls", "pulled.1", batch)
        for _ in range(COUNT):
            assert BODY in reader.read_frame()
        direct = {"seq": 1, "max_bytes": 2 * COUNT * len(BODY), **batch}
        send_json(reader, "$JS.API.DIRECT.GET.S", "direct.1", direct)
        for _ in range(COUNT):
            assert BODY in reader.read_frame()
        reader.read_frame()  # the end of the batch
        reader.send(b"SUB pushed 4\r\n")
        for _ in range(COUNT):
            assert BODY in reader.read_frame()
