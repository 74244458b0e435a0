"""Every target: its name, what it checks, where its inputs start from."""

from __future__ import annotations

from tests.fuzz.harness import Target
from tests.fuzz.targets import client_protocol as client
from tests.fuzz.targets import server_protocol as server
from tests.fuzz.targets import subjects, texts

TARGETS = {
    target.name: target
    for target in (
        Target(
            "protocol",
            client.check_protocol,
            client.protocol_seeds,
            words=client.WORDS,
        ),
        Target(
            "headers",
            client.check_headers,
            client.header_seeds,
            words=client.HEADER_WORDS,
        ),
        Target("websocket", client.check_websocket, client.websocket_seeds),
        Target("masking", client.check_masking, client.websocket_seeds),
        Target("server-protocol", server.check, server.seeds, words=server.WORDS),
        Target("json", texts.check_json, texts.json_seeds, words=texts.JSON_WORDS),
        Target("structs", texts.check_structs, texts.json_seeds, words=texts.JSON_WORDS),
        Target("durations", texts.check_duration, texts.duration_seeds, words=(b"h", b"ms", b".", b"-")),
        Target("times", texts.check_time, texts.time_seeds, words=(b"Z", b"+", b"-", b":", b".", b"60")),
        Target("schedules", texts.check_schedule, texts.schedule_seeds, words=texts.SCHEDULE_WORDS),
        Target(
            "keys",
            texts.check_key,
            texts.key_seeds,
            words=(b"S", b"U", b"=", b"-----BEGIN"),
        ),
        Target("ack-subjects", texts.check_ack, texts.ack_seeds, words=(b".", b"$JS.ACK.", b"-1", b"0")),
        Target("configuration", texts.check_config, texts.config_seeds, words=texts.CONFIG_WORDS),
        Target("subjects", subjects.check_tokens, subjects.pattern_seeds, words=subjects.WORDS),
        Target("subject-trees", subjects.check_trees, subjects.pattern_seeds, words=subjects.WORDS),
        Target("transforms", subjects.check_transforms, subjects.transform_seeds, words=subjects.CALLS),
    )
}
