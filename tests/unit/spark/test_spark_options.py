"""Options of `format("jetstream")`: what is taken, what is refused, and that no secret is shown."""

import pickle

import pytest

from millstream.spark.errors import OptionError
from millstream.spark.option_table import OPTIONS, Use, check_names
from millstream.spark.options import ConnectionOptions, SinkOptions, SourceOptions

READ = {"nats.servers": "nats://a:4222,b", "subscribe": "ORDERS"}
WRITE = {"nats.servers": "a"}


def batch(**more: str) -> SourceOptions:
    return SourceOptions.parse(READ | _dotted(more), Use.BATCH)


def streaming(**more: str) -> SourceOptions:
    return SourceOptions.parse(READ | _dotted(more), Use.STREAM)


def _dotted(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in options.items()}


def test_defaults_are_those_of_the_table() -> None:
    options = streaming()
    assert options.connection.servers == ("nats://a:4222", "b")
    assert options.streams == ("ORDERS",)
    assert (options.fetching.batch, options.fetching.max_bytes) == (10_000, 8 * 1024 * 1024)
    assert (options.fetching.timeout, options.fetching.retries) == (120, 3)
    assert options.fetching.fail_on_data_loss
    assert (options.commit_mode, options.durable) == ("none", None)
    assert options.start.word == "latest"
    assert batch().start.word == "earliest"


def test_names_may_have_any_case_as_spark_hands_them_over() -> None:
    lowered = {name.lower(): value for name, value in (READ | {"fetch.maxBytes": "1m"}).items()}
    assert SourceOptions.parse(lowered, Use.BATCH).fetching.max_bytes == 1024 * 1024


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("nats.server", "nats.servers"),
        ("servers", "nats.servers"),
        ("startingoffset", "startingOffsets"),
        ("maxoffsetspertriger", "maxOffsetsPerTrigger"),
        ("password", "nats.password"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_what_may_be_meant(wrong: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{wrong}': did you mean '{meant}'"):
        check_names([wrong])


def test_a_name_like_no_other_is_an_error_without_a_guess() -> None:
    with pytest.raises(OptionError, match=r"unknown option 'zzzzzz'$"):
        check_names(["zzzzzz"])


def test_what_spark_adds_itself_is_passed_over() -> None:
    check_names(["checkpointLocation", "queryName"])
    assert SinkOptions.parse(WRITE | {"checkpointlocation": "/x"}).subject is None


@pytest.mark.parametrize(
    ("use", "option", "text"),
    [
        (Use.BATCH, {"maxOffsetsPerTrigger": "1"}, "for a streaming read, not for a batch read"),
        (Use.STREAM, {"endingOffsets": "latest"}, "for a batch read, not for a streaming read"),
        (Use.STREAM, {"subject": "x"}, "for a write, not for a streaming read"),
        (Use.STREAM, {"pushDownFilters": "true"}, "for a batch read"),
    ],
)
def test_an_option_of_another_use_is_refused(use: Use, option: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        SourceOptions.parse(READ | option, use)


def test_an_option_for_reading_is_refused_in_a_write() -> None:
    with pytest.raises(OptionError, match="a batch read and a streaming read, not for a write"):
        SinkOptions.parse(WRITE | {"subscribe": "X"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fetch__batch": "0"}, "at least 1"),
        ({"fetch__batch": "many"}, "whole number"),
        ({"fetch__maxBytes": "8 parsecs"}, "a size such as 8m"),
        ({"fetchTimeout": "-3s"}, "above zero"),
        ({"fetchTimeout": "3 fortnights"}, "unit of time"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"transport": "pigeon"}, "one of auto, arrow, pull, direct"),
        ({"filterSubjects": "a,,b"}, "empty part"),
        ({"filterSubjects": "a,a"}, "twice"),
        ({"commitMode": "consumer"}, "needs the option durable"),
        ({"durable": "x"}, "durable does nothing"),
        ({"purge__force": "true"}, "purge.force does nothing"),
        ({"maxTriggerDelay": "1m"}, "does nothing without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "above maxOffsetsPerTrigger"),
        ({"stream": "OTHER"}, "not subscribe and stream"),
        ({"nats__user": "u"}, "need each other"),
        ({"nats__token": "t", "nats__creds": "f"}, "different ways to log in"),
        ({"nats__tls__cert": "f"}, "need each other"),
        ({"nats__jsDomain": "hub", "nats__apiPrefix": "x"}, "both name the API"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "does nothing without startingTimestamp"),
    ],
)
def test_values_that_mean_nothing_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        streaming(**options)


def test_servers_and_streams_are_required() -> None:
    with pytest.raises(OptionError, match=r"nats\.servers is required"):
        SourceOptions.parse({"stream": "X"}, Use.BATCH)
    with pytest.raises(OptionError, match="give one of the options subscribe and subscribePattern"):
        SourceOptions.parse({"nats.servers": "a"}, Use.BATCH)
    with pytest.raises(OptionError, match="not a regular expression"):
        SourceOptions.parse({"nats.servers": "a", "subscribePattern": "("}, Use.BATCH)


def test_a_sink_needs_what_its_guarantee_needs() -> None:
    with pytest.raises(OptionError, match="fenceSubject need each other"):
        SinkOptions.parse(WRITE | {"deliveryGuarantee": "fenced"})
    with pytest.raises(OptionError, match=r"deadLetter\.stream need each other"):
        SinkOptions.parse(WRITE | {"onBadRow": "deadletter"})
    options = SinkOptions.parse(WRITE | {"deliveryGuarantee": "FENCED", "fenceSubject": "f"})
    assert (options.delivery_guarantee, options.fence_subject) == ("fenced", "f")


def test_no_secret_is_shown() -> None:
    given = {
        "nats.servers": "nats://user:hidden1@host:4222",
        "nats.user": "u",
        "nats.password": "hidden2",
    }
    shown = ConnectionOptions.parse(given)
    other = ConnectionOptions.parse({"nats.servers": "h", "nats.nkey.secret": "hidden3"})
    third = ConnectionOptions.parse({"nats.servers": "h", "nats.token": "hidden4"})
    for options in (shown, other, third):
        assert "hidden" not in repr(options) + str(options)
    assert str(shown) == "nats://host:4222"


def test_secrets_have_names_that_spark_hides() -> None:
    """Spark redacts keys by this expression, see `spark.redaction.regex`."""
    for option in OPTIONS:
        if option.secret:
            assert any(word in option.name for word in ("secret", "password", "token"))


def test_options_can_be_pickled_and_are_the_key_of_a_connection() -> None:
    options = streaming(nats__creds="file", filterSubjects="a,b.>")
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy.connection) == hash(options.connection)


def test_the_api_is_found_under_a_domain_or_a_prefix() -> None:
    assert ConnectionOptions.parse({"nats.servers": "a"}).js_prefix == "$JS.API"
    assert ConnectionOptions.parse({"nats.servers": "a", "nats.jsDomain": "hub"}).js_prefix == "$JS.hub.API"
    assert ConnectionOptions.parse({"nats.servers": "a", "nats.apiPrefix": "js.acc."}).js_prefix == "js.acc"
