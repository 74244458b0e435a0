"""Options of `format("jetstream")`: what is taken, what is refused, and that no secret is shown."""

import pickle

import pytest

from millstream.spark.files import shipped
from millstream.spark.option_table import Use, check_names
from millstream.spark.options import SinkOptions, SourceOptions
from millstream.tables.errors import OptionError

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
    assert str(options.connection) == "nats://a:4222, nats://b:4222"
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


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("kafka.bootstrap.servers", "use nats.servers"),
        ("kafka.group.id", "use commitMode=consumer with durable"),
        ("assign", "use subscribe; a stream has no partitions"),
        ("topic", "use subject"),
        ("kafkaConsumer.pollTimeoutMs", "use fetchTimeout"),
        ("kafka.linger.ms", "settings of Kafka's client have no meaning here"),
    ],
)
def test_an_option_of_kafka_is_refused_with_what_to_use_instead(name: str, instead: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is Kafka's; .*{instead.removeprefix('use ')}"):
        check_names([name])


def test_a_bucket_is_a_stream_with_other_columns() -> None:
    options = SourceOptions.parse({"nats.servers": "a", "bucket": "devices"}, Use.STREAM)
    assert (options.streams, options.shape) == (("KV_devices",), "bucket")
    for more, text in (
        ({"subscribe": "X"}, "not subscribe and bucket"),
        ({"filterSubjects": "a"}, "filterSubjects has no meaning together with bucket"),
        ({"startingOffsets": "5"}, "startingOffsets has no meaning together with bucket"),
        ({"bucket": "a,b"}, "the name of one bucket"),
        ({"bucket": "a.b"}, "the name of one bucket"),
    ):
        with pytest.raises(OptionError, match=text):
            SourceOptions.parse({"nats.servers": "a", "bucket": "devices", **more}, Use.BATCH)
    with pytest.raises(OptionError, match="not those of kafkaSchema"):
        SourceOptions.parse(READ | {"kafkaSchema": "true", "pushDownFilters": "true"}, Use.BATCH)


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
        (
            {"nats__token": "t", "nats__creds": "f"},
            "give one way to log in, not option nats.token and option",
        ),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "does nothing without startingTimestamp"),
    ],
)
def test_values_that_mean_nothing_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        streaming(**options)


def test_servers_and_streams_are_required() -> None:
    with pytest.raises(OptionError, match=r"nats\.servers is required"):
        SourceOptions.parse({"stream": "X"}, Use.BATCH)
    with pytest.raises(OptionError, match="give one of the options subscribe, subscribePattern and bucket"):
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


def test_options_can_be_pickled_and_are_the_key_of_a_connection() -> None:
    options = streaming(nats__creds="file", filterSubjects="a,b.>")
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy.connection) == hash(options.connection)


def test_files_may_be_shipped_by_spark_and_are_looked_for_where_a_task_runs() -> None:
    connection = streaming(nats__creds="/none/user.creds").connection
    assert shipped(connection) == connection
