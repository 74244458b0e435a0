"""Every target: its name, what it checks, where its inputs start from."""

from __future__ import annotations

from tests.fuzz.harness import Target
from tests.fuzz.targets import (
    archives,
    columns,
    connections,
    jetstream,
    links,
    logins,
    store,
    subjects,
    texts,
    web,
)
from tests.fuzz.targets import client_protocol as client
from tests.fuzz.targets import server_protocol as server

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
        Target("connections", connections.check, connections.seeds, words=connections.WORDS),
        Target("links", links.check, links.seeds, words=links.WORDS),
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
        Target("nats-contexts", texts.check_context, texts.context_seeds, words=texts.CONTEXT_WORDS),
        Target("subjects", subjects.check_tokens, subjects.pattern_seeds, words=subjects.WORDS),
        Target("subject-trees", subjects.check_trees, subjects.pattern_seeds, words=subjects.WORDS),
        Target("transforms", subjects.check_transforms, subjects.transform_seeds, words=subjects.CALLS),
        Target("requests", jetstream.check_api, jetstream.api_seeds, words=jetstream.WORDS),
        Target("store", store.check_store, store.store_seeds, words=(b"\n", b"=")),
        Target("segments", store.check_segments, store.segment_seeds, words=(b"\n", b"=")),
        Target("summaries", store.check_summary, store.summary_seeds),
        Target("journal-entries", store.check_entry, store.entry_seeds, refusals=(ValueError,)),
        Target("rising-numbers", store.check_numbers, store.number_seeds, refusals=(ValueError,)),
        Target("s2", archives.check_s2, archives.s2_seeds),
        Target("s2-packing", archives.check_packing, archives.s2_seeds),
        Target("archive-frames", archives.check_frames, archives.frame_seeds),
        Target("archive-entries", archives.check_entries, archives.entry_seeds),
        Target("restores", archives.check_restore, archives.restore_seeds),
        Target("old-consumers", archives.check_old_consumer, archives.old_consumer_seeds),
        Target("arrow-batches", columns.check_batches, columns.message_seeds, words=columns.WORDS),
        Target("utf8", columns.check_utf8, columns.utf8_seeds),
        Target("spark-intake", columns.check_intake, columns.intake_seeds, words=columns.WORDS),
        Target("publish-answers", columns.check_answers, columns.answer_seeds, words=server.WORDS),
        Target("tokens", logins.check_token, logins.token_seeds, words=(b".", b"eyJ", b"=")),
        Target("token-bodies", logins.check_bodies, logins.body_seeds, words=logins.TOKEN_WORDS),
        Target("proxy-headers", logins.check_proxy, logins.proxy_seeds, words=logins.PROXY_WORDS),
        Target("dedupe", columns.check_dedupe, columns.dedupe_seeds),
        Target("upgrades", web.check_upgrade, web.upgrade_seeds, words=web.HTTP_WORDS),
        Target("http-answers", web.check_answer, web.answer_seeds, words=web.HTTP_WORDS),
        Target("http", web.check_http, web.http_seeds, words=web.HTTP_WORDS),
        Target("arrow-targets", web.check_target, web.target_seeds, words=web.QUERY_WORDS),
        Target("gateway-queries", web.check_query, web.query_seeds, words=web.QUERY_WORDS),
        Target("gateway-bodies", web.check_body, web.body_seeds, words=texts.JSON_WORDS),
        Target("gateway-headers", web.check_gateway_headers, web.gateway_header_seeds, words=(b"\n", b": ")),
    )
}
