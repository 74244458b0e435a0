"""The parts of /v2 that need neither HTTP nor NATS."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.gateway.errors import BadRequest, PreconditionFailed
from millstream.gateway.v2 import message_headers
from millstream.gateway.v2.ack_ids import ack_id_of, ack_subject
from millstream.gateway.v2.calls import read_query
from millstream.gateway.v2.consume_routes import AckItem, AckKind, ack_payload
from millstream.gateway.v2.etags import check_match, etag, is_known
from millstream.gateway.v2.frames import Events, Lines
from millstream.gateway.v2.live import StreamQuery
from millstream.gateway.v2.names import check_filter, check_name, check_subject
from millstream.gateway.v2.payload import Message, PayloadForm, body_of, fill_body, to_json
from millstream.gateway.v2.problems import problem_of, status_of_refusal
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, NotConnected
from millstream.protocol.ack_subject import read_ack_subject
from millstream.protocol.headers import make_text, read_pairs

_PLAIN = "$JS.ACK.ORDERS.c.2.40.7.1767225600000000000.3"
_DOMAIN = "$JS.ACK.hub.Abc123.ORDERS.c.2.40.7.1767225600000000000.3.r4nd"
_OLDER_DOMAIN = "$JS.ACK.hub.Abc123.ORDERS.c.2.40.7.1767225600000000000.3"


@pytest.mark.parametrize("reply", [_PLAIN, _DOMAIN, _OLDER_DOMAIN])
def test_an_ack_id_leads_back_to_where_the_message_is_acknowledged(reply: str) -> None:
    delivery = read_ack_subject(reply)
    assert delivery is not None
    assert ack_subject("ORDERS", "c", ack_id_of(delivery)) == reply


@given(st.text(max_size=60))
def test_whatever_is_taken_as_an_ack_id_stays_below_its_consumer(text: str) -> None:
    try:
        subject = ack_subject("S", "c", text)
    except BadRequest:
        return
    tokens = subject.split(".")
    assert tokens[:2] == ["$JS", "ACK"]
    assert ["S", "c"] in (tokens[2:4], tokens[4:6])
    assert not any(character.isspace() or character in "*>" for character in subject)


@given(st.text(max_size=40))
def test_a_subject_that_passes_can_not_end_a_command_or_match_others(text: str) -> None:
    try:
        check_subject(text)
    except BadRequest:
        return
    assert text
    assert not any(ord(character) <= 0x20 for character in text)
    assert all(token not in ("", "*", ">") for token in text.split("."))


def test_wildcards_are_for_filters() -> None:
    assert check_filter("a.*.>") == "a.*.>"
    assert check_subject("a.b*") == "a.b*"  # no wildcard: it is not a token of its own
    for wrong in ("a.>.b", "", "a..b"):
        with pytest.raises(BadRequest):
            check_filter(wrong)
    for wrong in ("", "a.b", "a/b", "a*", "x" * 256):
        with pytest.raises(BadRequest):
            check_name(wrong, "stream")


def test_headers_of_jetstream_get_their_spelling_back() -> None:
    raw = [
        (b"nats-ttl", b"1s"),
        (b"nats-msg-id", b"x"),
        (b"nats-expected-last-subject-sequence", b"1"),
        (b"nats-some-thing", b"y"),
        (b"millstream-header-a-b", b"gr\xc3\xbcn"),
        (b"millstream-header-a-b", b"again"),
        (b"content-type", b"text/plain"),
    ]
    assert message_headers.from_http(raw) == [
        ("Nats-TTL", "1s"),
        ("Nats-Msg-Id", "x"),
        ("Nats-Expected-Last-Subject-Sequence", "1"),
        ("Nats-Some-Thing", "y"),
        ("A-B", "grün"),
        ("A-B", "again"),
    ]


@given(
    st.lists(
        st.tuples(st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,10}", fullmatch=True), st.from_regex(r"\w{0,9}"))
    )
)
def test_headers_survive_the_block_that_nats_stores(pairs: list[tuple[str, str]]) -> None:
    pairs = [(name, value.strip()) for name, value in pairs]
    assert read_pairs(make_text(pairs)) == pairs


def test_repeated_headers_are_lists_in_json_both_ways() -> None:
    pairs = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")]
    shown = message_headers.to_json(pairs)
    assert shown == {"a": ["1", "3", "4"], "b": "2"}
    assert sorted(message_headers.from_json(shown)) == sorted(pairs)


@given(
    st.binary(max_size=200), st.sampled_from([form for form in PayloadForm if form is not PayloadForm.TEXT])
)
def test_a_body_that_is_shown_can_be_published_as_it_was(body: bytes, form: PayloadForm) -> None:
    message = Message("S", 1, "s", "t")
    fill_body(message, body, form)
    if form is PayloadForm.NONE:
        body = b""
    shown = msgspec.json.decode(to_json(message), type=Message)
    assert body_of(shown.data, shown.json, shown.base64) == body


def test_json_with_line_ends_is_shown_as_text() -> None:
    message = Message("S", 1, "s", "t")
    fill_body(message, b'{"a":\n1}', PayloadForm.JSON)
    assert message.data == '{"a":\n1}'
    assert b"\n" not in to_json(message)


def test_an_etag_changes_with_the_configuration_and_with_nothing_else() -> None:
    config = {"name": "S", "metadata": {"_nats.ver": "1", "mine": "x"}}
    same = {"metadata": {"mine": "x", "_nats.ver": "2", "_nats.level": "1"}, "name": "S"}
    other = {**config, "max_msgs": 5}
    assert etag(config) == etag(same) != etag(other)
    check_match("", config)
    check_match("*", config)
    check_match(f'"x", {etag(config)}', same)
    with pytest.raises(PreconditionFailed):
        check_match(f"W/{etag(config)}", config)  # a weak one says too little for a change
    assert is_known(f"W/{etag(config)}", same)
    assert not is_known("", config)


def test_refusals_have_the_status_that_tells_what_to_do() -> None:
    expected = {
        Err.STREAM_NOT_FOUND: 404,
        Err.NO_MESSAGE_FOUND: 404,
        Err.STREAM_NAME_IN_USE: 409,
        Err.WRONG_LAST_SEQUENCE: 412,
        Err.MESSAGE_EXCEEDS_MAXIMUM: 413,
        Err.INVALID_JSON: 422,
        Err.STREAM_CONFIG_INVALID: 422,
        Err.TOO_MANY_REQUESTS: 429,
        Err.NOT_ENABLED: 503,
        Err.INSUFFICIENT_RESOURCES: 503,
        Err.STORAGE_RESOURCES_EXCEEDED: 503,
    }
    assert {err: status_of_refusal(*err.value[:2]) for err in expected} == expected
    for err in Err:
        assert status_of_refusal(*err.value[:2]) in (404, 409, 412, 413, 422, 429, 503)


def test_a_problem_says_nothing_of_what_nobody_expected() -> None:
    assert problem_of(LinkApiError(404, 10059, "stream not found")).err_code == 10059
    assert problem_of(NotConnected("no connection")).status == 503
    surprise = problem_of(ValueError("secret"))
    assert (surprise.status, surprise.detail) == (500, "")


@pytest.mark.parametrize(
    ("item", "payload"),
    [
        (AckItem("x"), b"+ACK"),
        (AckItem("x", AckKind.NAK), b"-NAK"),
        (AckItem("x", AckKind.NAK, delay=1.5), b'-NAK {"delay":1500000000}'),
        (AckItem("x", AckKind.TERM), b"+TERM"),
        (AckItem("x", AckKind.TERM, reason="why"), b"+TERM why"),
        (AckItem("x", AckKind.PROGRESS), b"+WPI"),
    ],
)
def test_what_jetstream_is_told(item: AckItem, payload: bytes) -> None:
    assert ack_payload(item) == payload


def test_lines_and_events_hold_the_same_messages() -> None:
    messages = [Message("S", 1, "s", "t", data="a\nb"), Message("S", 2, "s", "t")]
    lines = Lines(0).messages(messages)
    assert [msgspec.json.decode(line)["seq"] for line in lines.splitlines()] == [1, 2]
    events = Events(15).messages(messages).split(b"\n\n")
    assert [event.split(b"\n")[0] for event in events] == [b"id: 1", b"id: 2", b""]
    assert [len(event.split(b"\n")) for event in events[:2]] == [2, 2]
    assert Events(15).ping() == b": ping\n\n"


def test_the_query_is_read_as_it_is_declared() -> None:
    query = read_query(StreamQuery, b"subject=a&subject=b.%3E&seq=5&payload=json")
    assert (query.subject, query.seq, query.payload) == (["a", "b.>"], 5, PayloadForm.JSON)
    for wrong in (b"seq=1&seq=2", b"nope=1", b"seq=x", b"seq=", b"payload=xml", b"seq=%ff", b"\xff"):
        with pytest.raises(BadRequest):
            read_query(StreamQuery, wrong)
    with pytest.raises(BadRequest):
        read_query(None, b"a=1")
