"""Each payload of an ack, its effect, and the answer to the client."""

import pytest

from tests.kits.conformance.delivery import SECOND, Scene

ACK_POLICIES = ["explicit", "all"]


def prepared(js: Scene, policy: str = "explicit", messages: int = 4, **config: object) -> None:
    js.stream()
    js.publish(*["a"] * messages)
    js.consumer(ack_policy=policy, **config)


def after(js: Scene) -> None:
    """Record the consumer's info before and after its next delivery."""
    js.look()
    js.pull(1)
    js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
@pytest.mark.parametrize("payload", ["", "+ACK", "+OK", "+NXT"])
def test_what_settles_a_message(js: Scene, policy: str, payload: str) -> None:
    prepared(js, policy, 6)
    _, second, third = js.pull(3)
    if payload == "+NXT":
        js.tell(second, payload)
        js.tell(third, payload)
    else:
        js.say(second, payload)
        js.look()
        js.tell(third, payload)
    after(js)


@pytest.mark.parametrize("policy", ACK_POLICIES)
@pytest.mark.parametrize(
    "payload",
    [
        "garbage",
        "+ack",
        "+ACK ",
        " +ACK",
        "+OKAY",
        "-nak",
        "NAK",
        "+WPI ",
        "+term",
        "-ERR",
        "{}",
        "+",
        "-",
        "+NX",
        "+AC",
    ],
)
def test_what_says_nothing_is_answered_and_does_nothing(js: Scene, policy: str, payload: str) -> None:
    prepared(js, policy)
    first, second = js.pull(2)
    js.say(first, payload)
    js.tell(second, payload)
    after(js)


@pytest.mark.parametrize("policy", ACK_POLICIES)
@pytest.mark.parametrize(
    "payload", ["+TERM", "+TERM because of this", "+TERM  two  blanks ", "+TERMINATED", "+TERM\t{}"]
)
def test_terminating(js: Scene, policy: str, payload: str) -> None:
    prepared(js, policy)
    _, second, third = js.pull(3)
    js.say(second, payload)
    js.events()
    js.look()
    js.tell(third, payload)
    js.events()
    after(js)


@pytest.mark.parametrize("policy", ACK_POLICIES)
@pytest.mark.parametrize(
    "payload",
    [
        "-NAK",
        "-NAK ",
        "-NAKED",
        "-NAK nonsense",
        "-NAK {",
        '-NAK {"delay":"1s"}',
        "-NAK 5",
    ],
)
def test_refusing_brings_a_message_back(js: Scene, policy: str, payload: str) -> None:
    prepared(js, policy)
    _, second, _ = js.pull(3)
    js.say(second, payload)
    js.events()
    js.pull(2)
    js.look()


@pytest.mark.parametrize(
    "payload",
    ["-NAK {}", '-NAK {"delay":0}', '-NAK {"delay":-5}', "-NAK 0s", "-NAK -1h", "-NAK 1ns", "-NAK 0"],
)
def test_no_delay_at_all(js: Scene, payload: str) -> None:
    prepared(js)
    second = js.pull(4)[1]
    js.say(second, payload)
    js.events()
    js.pull(1)
    js.look()


@pytest.mark.parametrize(
    "payload", ['-NAK {"delay":1000000000}', "-NAK 1s", '-NAK{"delay":1000000000}', "-NAK 1.2s"]
)
def test_refusing_with_a_delay(js: Scene, payload: str) -> None:
    prepared(js)
    first = js.pull(1)[0]
    js.say(first, payload)
    js.events()
    js.look()
    js.pull(2)
    js.pull(2)
    js.look()


def test_longer_delays_come_later(js: Scene) -> None:
    prepared(js)
    first, second, third, fourth = js.pull(4)
    js.tell(first, "-NAK 2s")
    js.tell(second, '-NAK {"delay":1000000000}')
    js.tell(third, "-NAK 1h")
    js.tell(fourth, "-NAK")
    js.events(4)
    js.pull(3)
    js.look()


def test_a_delay_can_be_replaced(js: Scene) -> None:
    prepared(js)
    first, second, _, _ = js.pull(4)
    js.tell(first, "-NAK 1h")
    js.tell(first, "-NAK 1s")
    js.tell(second, "-NAK 1h")
    js.tell(second, "-NAK")
    js.events(4)
    js.pull(2)
    js.look()


def test_what_is_refused_twice_comes_back_once(js: Scene) -> None:
    prepared(js)
    first, _ = js.pull(2)
    js.tell(first, "-NAK")
    js.tell(first, "-NAK")
    js.events(2)
    js.pull(2)
    js.look()


def test_refused_messages_come_back_in_the_order_of_refusals(js: Scene) -> None:
    prepared(js)
    messages = js.pull(4)
    for index in (2, 0, 3, 1):
        js.tell(messages[index], "-NAK")
    js.events(4)
    again = js.pull(4)
    js.look()
    js.say(again[0])
    js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
def test_an_ack_for_a_refused_message_keeps_it_from_coming_back(js: Scene, policy: str) -> None:
    prepared(js, policy)
    first, _ = js.pull(2)
    js.tell(first, "-NAK")
    js.say(first)
    js.events()
    js.pull(2)
    js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
def test_refusing_what_is_settled_does_nothing(js: Scene, policy: str) -> None:
    prepared(js, policy)
    first, second, third = js.pull(3)
    js.say(first)
    js.say(first, "-NAK")
    js.say(third)
    js.say(third, "-NAK")
    js.look()
    js.say(second, "-NAK 1h")
    after(js)


@pytest.mark.parametrize("policy", ACK_POLICIES)
def test_acknowledging_twice_is_answered_twice(js: Scene, policy: str) -> None:
    prepared(js, policy)
    messages = js.pull(3)
    for message in (*messages, *messages):
        js.say(message)
        js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
def test_terminating_twice(js: Scene, policy: str) -> None:
    prepared(js, policy)
    first, _ = js.pull(2)
    js.say(first, "+TERM once")
    js.say(first, "+TERM twice")
    js.events(2)
    js.look()
    js.say(first)
    js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
@pytest.mark.parametrize("payload", ["", "+ACK", "+TERM", "-NAK", "+WPI"])
def test_speaking_of_what_was_never_delivered(js: Scene, policy: str, payload: str) -> None:
    prepared(js, policy)
    js.pull(1)
    for subject in ("$JS.ACK.S.c.1.3.3.1700000000000000000.1", "$JS.ACK.S.c.1.900.900.1700000000000000000.0"):
        js.unanswered(subject, payload)
    if payload == "+TERM":
        js.events(2)
    js.look()
    js.drain()
    js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
def test_the_sequence_of_the_stream_is_what_counts(js: Scene, policy: str) -> None:
    prepared(js, policy)
    js.pull(3)
    js.say("$JS.ACK.S.c.7.2.3.1.0")
    js.look()
    js.say("$JS.ACK.S.c.7.1.1.1.0")
    js.look()
    js.say("$JS.ACK.S.c.9.3.1.1.0", "-NAK")
    js.look()
    js.say("$JS.ACK.S.c.9.3.3.1.0", "-NAK")
    js.look()
    if policy == "explicit":  # by ack all, nats-server would raise the floor to 99
        js.say("$JS.ACK.S.c.9.3.99.1.0")
        js.look()


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.ACK.S.c.1.x.1.1.1",
        "$JS.ACK.S.c.1.0.1.1.1",
        "$JS.ACK.S.c.1.-1.1.1.1",
        "$JS.ACK.S.c.1.99999999999999999999.1.1.1",
        "$JS.ACK.S.c.x.1.1.1.1",
        "$JS.ACK.S.c.1.1.x.1.1",
        "$JS.ACK.S.c.1.1.1.x.x",
        "$JS.ACK.S.c.1.01.1.1.1",
        "$JS.ACK._.HASH.S.c.1.1.1.1.1",
        "$JS.ACK._.HASH.S.c.1.1.1.1.1.random",
        "$JS.ACK._.HASH.S.c.1.1.1.1.1.a.b.c.d",
        "$JS.ACK.hub.HASH.S.c.1.1.1.1.1",
        "$JS.ACK._.HASH.S.c.1.1.1.1",
        "$JS.ACK._.HASH.S.c.1.x.1.1.1",
        "$JS.ACK._.HASH.S.c.1.1.1",
    ],
)
def test_forms_of_the_subject(js: Scene, own: str, subject: str) -> None:
    prepared(js)
    _, second = js.pull(2)
    queue = js.try_request(subject.replace("HASH", own))
    js.in_turn()
    js.look()
    js.say(second)
    heard = [str(each).partition(" ")[2].replace(own, "HASH") for each in queue]
    js.note(f"{subject}: {heard or 'no answer'}")
    js.look()


def test_the_hash_of_another_account_means_nobody(js: Scene) -> None:
    prepared(js)
    js.pull(1)
    js.say("$JS.ACK._.szMpdrwD.S.c.1.1.1.1.1")
    js.look()


@pytest.mark.parametrize("push", [False, True])
def test_without_acks_nobody_takes_them(js: Scene, push: bool) -> None:
    js.stream()
    js.publish("a", "a")
    js.listen("d")
    js.consumer(ack_policy="none", **({"deliver_subject": "d"} if push else {}))
    message = (js.heard("d", 2) if push else js.pull(2))[0]
    for payload in ("+ACK", "-NAK", "+TERM", "+WPI", "+NXT"):
        js.say(message, payload)
    js.look()


def test_acks_for_a_consumer_that_is_gone_are_for_nobody(js: Scene) -> None:
    prepared(js)
    first = js.pull(1)[0]
    js.api("CONSUMER.DELETE.S.c")
    js.events()
    js.say(first)


def test_work_in_progress_keeps_a_message(js: Scene) -> None:
    prepared(js, ack_wait=30 * SECOND)
    first = js.pull(1)[0]
    js.say(first, "+WPI")
    js.tell(first, "+WPI")
    js.look()
    js.pull(3)
    js.look()


def test_asking_for_more_without_a_place_for_it_only_acknowledges(js: Scene) -> None:
    prepared(js)
    first = js.pull(1)[0]
    js.tell(first, "+NXT 3")
    js.look()


@pytest.mark.parametrize("rest", ["", " 2", ' {"batch":2}', ' {"batch":2,"no_wait":true}', "x", " {"])
def test_asking_for_more(js: Scene, rest: str) -> None:
    prepared(js)
    js.listen("more")
    first = js.pull(1)[0]
    js.send(first.reply, f"+NXT{rest}".encode(), "more")
    js.heard("more", 2 if "2" in rest else 1)
    js.look()


def test_asking_a_push_consumer_for_more_only_acknowledges(js: Scene) -> None:
    js.stream()
    js.publish("a", "a")
    js.listen("d")
    js.consumer(ack_policy="explicit", deliver_subject="d")
    first, _ = js.heard("d", 2)
    js.unanswered(first, "+NXT")
    js.look()


def test_pulling_from_a_push_consumer(js: Scene) -> None:
    js.stream()
    js.consumer(deliver_subject="d")
    js.listen("x")
    js.ask_for("x")
    js.heard("x")


def test_an_ack_all_between_two_that_are_refused(js: Scene) -> None:
    prepared(js, "all", 6)
    messages = js.pull(6)
    js.say(messages[1], "-NAK")
    js.say(messages[4], "-NAK")
    js.events(2)
    js.say(messages[2])
    js.look()
    js.pull(1)
    js.say(messages[1])
    js.look()
    js.say(messages[5])
    js.look()


@pytest.mark.parametrize("policy", ACK_POLICIES)
def test_the_floor_moves_over_what_is_settled(js: Scene, policy: str) -> None:
    js.stream()
    js.publish("a", "b", "a", "b", "a", "b", "a", "a")
    js.consumer(ack_policy=policy, filter_subject="s.a")
    messages = js.pull(4)
    for index in (1, 3, 0, 2):
        js.say(messages[index])
        js.look()
    js.pull(1)
    js.look()


def test_sampling_every_ack(js: Scene) -> None:
    prepared(js, sample_freq="100%", max_deliver=3)
    first, second, third, fourth = js.pull(4)
    js.say(first)
    js.say(first)
    js.tell(second, "-NAK")
    js.events(2)
    again = js.pull(1)[0]
    js.say(again)
    js.events()
    js.say(third, "+TERM")
    js.events()
    js.tell(fourth, "+NXT")
    js.events()


def test_sampling_with_ack_all(js: Scene) -> None:
    prepared(js, "all", sample_freq="100")
    _, second, third, _ = js.pull(4)
    js.say(second)
    js.say(second)
    js.say(third)
    js.look()


def test_acks_after_the_time_for_them_still_count(js: Scene) -> None:
    prepared(js, ack_wait=SECOND)
    first = js.pull(1)[0]
    js.pull(4)
    js.say(first)
    js.look()


def test_a_long_delay_outlives_the_wait(js: Scene) -> None:
    prepared(js, ack_wait=SECOND, messages=2)
    first, _ = js.pull(2)
    js.tell(first, f'-NAK {{"delay":{3600 * SECOND}}}')
    js.events()
    js.pull(2)
    js.pull(1)
