"""The error table is the one of nats-server 2.15.1; `tests/golden/jsapi/errors.txt` was read from it."""

import string
from pathlib import Path

import pytest

from millstream.base.errors import MillstreamError
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import ApiError, Err

GOLDEN = Path(__file__).parent / "errors.txt"

# Checked by hand against answers of a running server.
SEEN = {
    Err.BAD_REQUEST: (400, 10003, "bad request"),
    Err.CLUSTER_REQUIRED: (503, 10010, "JetStream clustering support required"),
    Err.CONSUMER_NOT_FOUND: (404, 10014, "consumer not found"),
    Err.INVALID_JSON: (400, 10025, "invalid JSON: {err}"),
    Err.NO_MESSAGE_FOUND: (404, 10037, "no message found"),
    Err.REQUEST_NOT_EMPTY: (400, 10038, "expected an empty request payload"),
    Err.SEQUENCE_NOT_FOUND: (400, 10043, "sequence {seq} not found"),
    Err.STREAM_CONFIG_INVALID: (500, 10052, "{err}"),
    Err.STREAM_NAME_MISMATCH: (400, 10056, "stream name in subject does not match request"),
    Err.STREAM_NAME_IN_USE: (400, 10058, "stream name already in use with a different configuration"),
    Err.STREAM_NOT_FOUND: (404, 10059, "stream not found"),
    Err.STREAM_RESTORE_FAILED: (500, 10062, "restore failed: {err}"),
    Err.WRONG_LAST_SEQUENCE: (400, 10071, "wrong last sequence: {seq}"),
    Err.CONSUMER_MAX_ACK_PENDING_REQUIRES_ACK_POLICY: (
        400,
        10082,
        "consumer requires ack policy for max ack pending",
    ),
    Err.SOURCE_INVALID_STREAM_NAME: (400, 10141, "sourced stream name is invalid"),
    Err.CONSUMER_INVALID_PRIORITY_GROUP: (
        400,
        10160,
        "Provided priority group does not exist for this consumer",
    ),
}


@pytest.mark.parametrize(("err", "row"), SEEN.items())
def test_error_is_what_a_running_server_answered(err: Err, row: tuple[int, int, str]) -> None:
    assert err.value == row


def test_table_is_the_whole_table_of_the_reference() -> None:
    table = [f"{code} {status} {text}" for status, code, text in (err.value for err in Err)]
    assert table == GOLDEN.read_text().splitlines()


def test_no_two_errors_share_a_code_or_a_row() -> None:
    assert len({err.value[1] for err in Err}) == len(Err.__members__) == len(list(Err))


def test_error_fills_its_description() -> None:
    error = ApiError(Err.WRONG_LAST_SEQUENCE, seq=7)
    assert (error.err, error.status, error.code) == (Err.WRONG_LAST_SEQUENCE, 400, 10071)
    assert error.description == str(error) == "wrong last sequence: 7"
    assert isinstance(error, MillstreamError)


def test_braces_in_a_value_are_not_fields() -> None:
    assert ApiError(Err.INVALID_JSON, err="{x}").description == "invalid JSON: {x}"


def test_error_that_lacks_a_field_can_not_be_made() -> None:
    with pytest.raises(KeyError):
        ApiError(Err.WRONG_LAST_SEQUENCE)


def test_every_error_can_be_made_from_named_fields() -> None:
    for err in Err:
        names = [name for _, name, _, _ in string.Formatter().parse(err.value[2]) if name is not None]
        assert all(name.isidentifier() for name in names)
        assert "{" not in ApiError(err, **dict.fromkeys(names, "value")).description


def test_body_of_an_error_is_what_an_answer_carries() -> None:
    body = ApiError(Err.STREAM_NOT_FOUND).body
    assert encode(body) == b'{"code":404,"err_code":10059,"description":"stream not found"}'
