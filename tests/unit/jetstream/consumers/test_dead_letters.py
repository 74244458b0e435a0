"""Dead letters of a consumer: why they are written, what they contain, what is refused, and power cuts."""

from __future__ import annotations

import copy
import errno
from random import Random

import pytest

from millstream.jetstream.consumers import dead_letters
from millstream.jetstream.consumers.saved_state import OpenLetter
from millstream.jsapi import letter_headers as names
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.fake_world import FakeWorld
from tests.kits.jetstream.letters import METADATA, LetterSite


@pytest.fixture
def site() -> LetterSite:
    site = LetterSite()
    site.set_up()
    return site


def spend(site: LetterSite, times: int = 2) -> None:
    """Let every delivery time out until the message is given up."""
    for _ in range(times):
        site.take(10)
        site.world.advance(11)


# -- why, and what ------------------------------------------------------------------------------------


def test_max_deliver_makes_a_letter(site: LetterSite) -> None:
    block = b"NATS/1.0\r\nTrace: 7\r\nNats-Msg-Id: one\r\nTrace: 8\r\n\r\n"
    site.world.send(b"orders.new", b"body", headers=block)
    site.world.settle()
    spend(site)
    ((payload, found),) = site.letters()
    assert payload == b"body"
    assert found.pop(names.ORIG_TIME).startswith("2023-11-14T22:13:20")
    assert found == {
        "Trace": "8",  # the last of two
        names.ORIG_STREAM: "ORDERS",
        names.ORIG_SEQ: "1",
        names.ORIG_SUBJECT: "orders.new",
        names.DLQ_CONSUMER: "c",
        names.DLQ_DELIVERIES: "2",
        names.DLQ_REASON: "max_deliver",
    }
    assert site.kept() == []  # the message is settled, so it leaves the work queue
    info = site.info()
    assert (info["num_ack_pending"], info["num_redelivered"]) == (0, 0)
    assert info["dead_letters"] == {"subject": "dlq.ORDERS.c", "stored": 1, "waiting": 0}
    assert info["ack_floor"]["stream_seq"] == 1


def test_a_term_makes_a_letter_and_is_confirmed_when_it_is_kept(site: LetterSite) -> None:
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.world.send(ack, b"+TERM no such\ncustomer", reply=b"_INBOX.done")
    site.world.send(ack, b"+TERM again", reply=b"_INBOX.again")
    assert not any(each.subject.startswith(b"_INBOX.done") for each in site.world.published)
    site.world.settle()
    ((_, found),) = site.letters()
    assert found[names.DLQ_REASON] == "terminated: no such customer"
    assert found[names.DLQ_DELIVERIES] == "1"
    replies = [each.subject for each in site.world.published if each.subject.startswith(b"_INBOX.")]
    assert replies[-2:] == [b"_INBOX.done", b"_INBOX.again"]
    site.say(ack, b"+TERM once more")
    assert site.origins() == [1]


def test_a_long_reason_is_cut(site: LetterSite) -> None:
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.say(ack, b"+TERM " + b"why " * 30_000)
    ((_, found),) = site.letters()
    assert found[names.DLQ_REASON].startswith("terminated: why why ")
    assert len(found[names.DLQ_REASON]) < 1100


@pytest.mark.parametrize("value", [b"v" * 65_400, b"\xe9" * 40_000], ids=["long", "Latin-1"])
def test_headers_that_leave_no_room_for_those_of_a_letter(site: LetterSite, value: bytes) -> None:
    site.world.send(b"orders.new", b"body", headers=b"NATS/1.0\r\nTrace: 7\r\nLong: %b\r\n\r\n" % value)
    site.world.settle()
    spend(site)
    ((payload, found),) = site.letters()
    assert payload == b"body"
    assert found[names.DLQ_REASON] == "max_deliver; its 2 headers are too long for a letter"
    assert found[names.ORIG_SEQ] == "1"
    assert "error" not in site.info()["dead_letters"]


def test_a_message_larger_than_any_request_makes_a_letter() -> None:
    site = LetterSite()
    site.set_up(max_bytes=200)
    for body in (b"small", b"x" * 300, b"also small"):
        site.world.send(b"orders.new", body)
    site.world.settle()
    assert [payload for payload, _ in site.take(3, max_bytes=200)] == [b"small", b"also small"]
    ((payload, found),) = site.letters()
    assert payload == b"x" * 300
    assert found[names.DLQ_REASON].startswith("too_large: ")
    assert found[names.DLQ_DELIVERIES] == "0"


def test_a_nak_of_the_last_delivery_makes_a_letter(site: LetterSite) -> None:
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    for _ in range(2):
        ((_, ack),) = site.take()
        site.say(ack, b"-NAK")
    assert site.take() == []
    assert site.origins() == [1]


def test_the_advisory_is_sent_with_the_letter(site: LetterSite) -> None:
    site.world.heard.append(b"$JS.EVENT.ADVISORY.>")
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    spend(site)
    (spent,) = [each for each in site.world.published if b"MAX_DELIVERIES" in each.subject]
    assert b'"dead_letter":"' in spent.payload  # so that nobody else writes one
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.say(ack, b"+TERM spoiled")
    (terminated,) = [each for each in site.world.published if b"MSG_TERMINATED" in each.subject]
    assert b'"dead_letter":"' in terminated.payload


def test_a_consumer_in_memory_writes_letters() -> None:
    site = LetterSite()
    site.set_up(mem_storage=True)
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    spend(site)
    assert site.origins() == [1]
    assert site.kept() == []


def test_many_messages_are_given_up_at_once(site: LetterSite) -> None:
    for number in range(300):
        site.world.send(b"orders.new", b"%d" % number)
    site.world.settle()
    for _ in range(2):
        assert len(site.take(300)) == 300
        site.world.advance(11)
    assert site.origins() == list(range(1, 301))
    assert site.kept() == []


# -- letters that cannot be stored --------------------------------------------------------------------


def test_without_a_stream_the_message_stays_until_there_is_one(site: LetterSite) -> None:
    site.ask("STREAM.DELETE.DLQ")
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    spend(site)
    info = site.info()
    assert info["num_ack_pending"] == 1
    assert info["dead_letters"]["waiting"] == 1
    assert info["dead_letters"]["error"] == "no stream has the subject dlq.ORDERS.c"
    assert site.take() == []  # it is not delivered once more
    site.stream("DLQ", "dlq.>")
    site.world.advance(130)
    assert site.origins() == [1]
    assert site.info()["dead_letters"] == {"subject": "dlq.ORDERS.c", "stored": 1, "waiting": 0}


def test_a_full_stream_of_letters_loses_nothing(site: LetterSite) -> None:
    site.ask("STREAM.DELETE.DLQ")
    site.stream("DLQ", "dlq.>", max_msgs=1, discard="new")
    for _ in range(3):
        site.world.send(b"orders.new", b"body")
    site.world.settle()
    spend(site)
    assert site.origins() == [1]
    assert site.kept() == [2, 3]
    site.ask("STREAM.UPDATE.DLQ", {"name": "DLQ", "subjects": ["dlq.>"], "max_msgs": 9, "discard": "new"})
    site.world.advance(130)
    assert sorted(site.origins()) == [1, 2, 3]


def test_a_term_without_a_stream_has_no_effect(site: LetterSite) -> None:
    site.ask("STREAM.DELETE.DLQ")
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.say(ack, b"+TERM", reply=b"_INBOX.done")
    assert not any(each.subject == b"_INBOX.done" for each in site.world.published)
    site.world.advance(11)
    assert len(site.take()) == 1


# -- configurations -----------------------------------------------------------------------------------


REFUSALS: dict[str, str] = {
    "other.x": "no stream has the subject other.x",
    "orders.dead": "orders.dead belongs to stream ORDERS itself",
    "dlq.>": "'dlq.>' is no subject for messages",
    "$JS.API.INFO": "'$JS.API.INFO' is no subject for messages",
    "": "'' is no subject for messages",
    "interest.x": "stream I keeps only messages that a consumer waits for",
    "memory.x": "stream M is in memory, and the consumer is not",
    "sealed.x": "stream SEALED is sealed",
}


def test_what_cannot_work_is_refused() -> None:
    site = LetterSite()
    site.stream("ORDERS", "orders.*")
    site.stream("DLQ", "dlq.>")
    site.stream("I", "interest.>", retention="interest")
    site.stream("M", "memory.>", storage="memory")
    site.stream("SEALED", "sealed.>")
    site.ask("STREAM.UPDATE.SEALED", {"name": "SEALED", "subjects": ["sealed.>"], "sealed": True})
    for subject, problem in REFUSALS.items():
        answer = site.consumer(metadata={"millstream.dead_letter": subject})
        assert answer["error"]["description"] == f"millstream.dead_letter: {problem}"
    answer = site.consumer(ack_policy="all")
    assert answer["error"]["description"] == "millstream.dead_letter: the ack policy must be explicit"
    assert site.ask("CONSUMER.NAMES.ORDERS")["consumers"] in (None, [])


def test_letters_may_not_come_back(site: LetterSite) -> None:
    site.stream("THIRD", "third.>")
    assert "error" not in site.consumer("d", "DLQ", metadata={"millstream.dead_letter": "third.x"})
    answer = site.consumer("e", "THIRD", metadata={"millstream.dead_letter": "orders.x"})
    problem = "millstream.dead_letter: the dead letters of stream ORDERS come back to stream THIRD"
    assert answer["error"]["description"] == problem


def test_a_consumer_can_be_given_dead_letters_and_lose_them(site: LetterSite) -> None:
    site.consumer(metadata={})
    assert "dead_letters" not in site.info()
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    spend(site)
    assert site.letters() == []
    site.consumer(metadata=METADATA)
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    spend(site)
    assert site.origins() == [2]


# -- crashes ------------------------------------------------------------------------------------------


def life(site: LetterSite) -> None:
    """Give up some messages in every way, with other publishes to the stream of letters."""
    for number in range(6):
        site.world.send(b"orders.new", b"%d" % number)
        site.world.send(b"dlq.other", b"o%d" % number)
        if number % 2:
            site.world.settle()
    acks = site.take(6)
    for _, ack in acks[:2]:
        site.world.send(ack, b"+TERM bad", reply=b"_INBOX.term")
    site.world.send(b"dlq.other", b"p")
    site.say(acks[2][1], b"+ACK", reply=b"_INBOX.ack")
    site.world.advance(11)
    site.take(6)
    site.world.advance(11)


def steps_of_life() -> range:
    """Return the numbers of the operations of ``life``, after those that set everything up."""
    site = LetterSite()
    site.set_up()
    assert isinstance(site.fs, CrashFileSystem)
    first = site.fs.operations
    life(site)
    assert site.fs.operations - first > 20
    return range(first + 1, site.fs.operations + 1)


def open_letters(site: LetterSite, stream: str = "ORDERS") -> list[OpenLetter]:
    """Return the letters in the journal of a stream's consumers that may not be stored."""
    journal = site.account.streams[stream].consumers.journal
    assert journal is not None
    return list(journal.letters.values())


class CutLife:
    """A life that a power cut ended."""

    def __init__(self, cut: int) -> None:
        self.site = LetterSite()
        self.site.set_up()
        assert isinstance(self.site.fs, CrashFileSystem)
        self.site.fs.cut_power_at(cut)
        with pytest.raises(PowerCut):
            life(self.site)
        replies = [each.subject for each in self.site.world.published]
        self.confirmed = replies.count(b"_INBOX.term")
        self.settled = {3} if b"_INBOX.ack" in replies else set()

    def check(self, again: LetterSite, case: str) -> None:
        """Give up what is left, and check that every message has one letter, which stays."""
        assert len(origins_of(again)) >= self.confirmed, f"a confirmed letter is lost, {case}"
        again.world.advance(11)
        for _ in range(3):
            again.take(6)
            again.world.advance(11)
        origins = origins_of(again)
        assert len(origins) == len(set(origins)), f"twice, {case}"
        wanted = set(range(1, again.account.streams["ORDERS"].log.last_seq + 1)) - self.settled
        assert wanted <= set(origins) | {3}, f"lost, {case}"
        assert again.kept() == []
        blocks = [block for _, block in again.letters()]
        final = again.after_power_cut(Keep.NOTHING)
        assert [block for _, block in final.letters()] == blocks
        assert open_letters(final) == []


def origins_of(site: LetterSite) -> list[int]:
    """Return the sequences of the messages that became letters, where others publish to their stream, too."""
    return [int(block[names.ORIG_SEQ]) for _, block in site.letters() if names.ORIG_SEQ in block]


def check_cuts(keep: Keep, seeds: range) -> None:
    for cut in steps_of_life():
        for seed in seeds if keep in (Keep.SECTORS, Keep.PREFIX) else seeds[:1]:
            lived = CutLife(cut)
            lived.check(lived.site.after_power_cut(keep, seed), f"operation {cut}, seed {seed}, {keep}")


@pytest.mark.parametrize("keep", list(Keep))
def test_a_power_cut_at_every_step_makes_each_letter_once(keep: Keep) -> None:
    check_cuts(keep, range(54, 60))


@pytest.mark.soak
@pytest.mark.parametrize("keep", [Keep.PREFIX, Keep.SECTORS])
@pytest.mark.parametrize("part", range(10))
def test_many_power_cuts_at_every_step_make_each_letter_once(part: int, keep: Keep) -> None:
    check_cuts(keep, range(100 * part, 100 * part + 100))


# The commit of letters 4, 5 and 6 keeps the second.  So the first is stored behind it, with the sequence that
# the third has in the journal.
TORN_CUT = 42
TORN_SEEDS = [58, 5058, 11058, 22058]


@pytest.mark.parametrize("seed", TORN_SEEDS)
def test_a_letter_whose_sequence_another_gets_at_the_restart(seed: int) -> None:
    lived = CutLife(steps_of_life()[TORN_CUT - 1])
    again = lived.site.after_power_cut(Keep.SECTORS, seed)
    assert sorted(origins_of(again)) == [1, 2, 4, 5, 6]
    lived.check(again, f"seed {seed}")


def check_second_cuts(cut: int, seed: int, keep: Keep) -> None:
    """Cut power, and again at every step of the start after that."""
    lived = CutLife(cut)
    fs = lived.site.fs
    assert isinstance(fs, CrashFileSystem)
    survivor = fs.crash(Keep.SECTORS, Random(seed))
    for step in range(1, 200):
        again = copy.deepcopy(survivor)
        again.cut_power_at(step)
        try:
            LetterSite(again, now_ns=lived.site.world.time_ns)
        except PowerCut:
            third = LetterSite(again.crash(keep, Random(step)), now_ns=lived.site.world.time_ns)
            lived.check(third, f"operation {cut}, seed {seed}, step {step}, {keep}")
        else:
            assert step > 1
            return
    pytest.fail("the start has no end")


@pytest.mark.parametrize("keep", list(Keep))
def test_a_power_cut_during_the_start_after_another(keep: Keep) -> None:
    steps = steps_of_life()
    check_second_cuts(steps[TORN_CUT - 1], TORN_SEEDS[0], keep)
    for cut in steps[TORN_CUT - 6 : TORN_CUT + 4]:
        check_second_cuts(cut, cut, keep)


@pytest.mark.parametrize("extra", range(10))
def test_two_streams_have_letters_in_one(extra: int) -> None:
    """A start stores the letters of one stream first, so it skips or uses the sequences of the others."""
    site = LetterSite()
    site.set_up()
    site.stream("OTHERS", "others.*", retention="workqueue")
    assert "error" not in site.consumer(stream="OTHERS")
    for number in range(3):
        site.world.send(b"orders.new", b"%d" % number)
        site.world.send(b"others.new", b"%d" % number)
    site.world.settle()
    acks = [[ack for _, ack in site.take(3, stream=name)] for name in ("ORDERS", "OTHERS")]
    for pair in zip(*acks, strict=True):
        for ack in pair:
            site.world.send(ack, b"+TERM")
        site.world.settle_once()
    for _ in range(extra):
        site.world.settle_once()
    again = site.after_power_cut()
    for _ in range(4):
        again.take(3, stream="ORDERS")
        again.take(3, stream="OTHERS")
        again.world.advance(11)
    found = sorted((block[names.ORIG_STREAM], block[names.ORIG_SEQ]) for _, block in again.letters())
    assert found == [(name, str(seq)) for name in ("ORDERS", "OTHERS") for seq in (1, 2, 3)]


@pytest.mark.parametrize("seed", range(12))
def test_a_letter_that_is_removed_at_once_does_not_come_back(seed: int) -> None:
    """Between the commit with the letter and the next of the journal, somebody puts the letter back."""
    random = Random(seed)
    site = LetterSite()
    site.set_up()
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.world.send(ack, b"+TERM")
    while not site.letters():
        site.world.settle_once()
    assert site.account.streams["DLQ"].log.remove(1)
    site.account.streams["DLQ"].on_durable(lambda: None)
    for _ in range(random.randrange(6)):
        site.world.settle_once()
    again = site.after_power_cut(random.choice(list(Keep)), seed)
    if not again.letters():  # the removal was durable
        spend(again, 3)
        assert again.letters() == []
    assert again.kept() == []


def test_a_failing_journal_holds_the_letter_back() -> None:
    site = LetterSite()
    site.set_up()
    assert isinstance(site.fs, CrashFileSystem)
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.fs.fail(errno.EIO, kind="sync")
    site.say(ack, b"+TERM", reply=b"_INBOX.done")
    assert site.letters() == []
    assert not any(each.subject == b"_INBOX.done" for each in site.world.published)
    site.fs.heal()
    site.world.advance(5)
    assert site.origins() == [1]
    assert any(each.subject == b"_INBOX.done" for each in site.world.published)


def condemned(steps: int) -> LetterSite:
    """Return a site that has gone some steps towards the letter of a terminated message."""
    site = LetterSite()
    site.set_up()
    site.world.send(b"orders.new", b"body")
    site.world.settle()
    ((_, ack),) = site.take()
    site.world.send(ack, b"+TERM")
    for _ in range(steps):
        site.world.settle_once()
    return site


STEPS = range(10)  # more than there are


@pytest.mark.parametrize("steps", STEPS)
def test_a_clean_stop_at_every_step(steps: int) -> None:
    site = condemned(steps)
    site.account.stop()
    again = LetterSite(site.fs, now_ns=site.world.time_ns)
    again.world.advance(11)
    spend(again, 3)
    assert again.origins() == [1]
    assert again.kept() == []


@pytest.mark.parametrize("steps", STEPS)
def test_the_stream_of_the_letters_is_deleted_at_every_step(steps: int) -> None:
    site = condemned(steps)
    site.ask("STREAM.DELETE.DLQ")
    site.world.settle()
    assert open_letters(site) == []
    info = site.info()
    assert info["num_ack_pending"] == info["dead_letters"]["waiting"] == len(site.kept())


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("verb", ["CONSUMER.DELETE.ORDERS.c", "STREAM.DELETE.ORDERS"])
def test_consumer_or_stream_are_deleted_at_every_step(verb: str, steps: int) -> None:
    site = condemned(steps)
    site.ask(verb)
    site.world.settle()
    if "ORDERS" in site.account.streams:
        assert len(site.origins()) + len(site.kept()) == 1
    site.world.send(b"dlq.other", b"x", reply=b"_INBOX.other")
    site.world.settle()
    assert any(each.subject == b"_INBOX.other" for each in site.world.published)  # its commits go on


@pytest.mark.parametrize("steps", STEPS)
def test_a_reset_at_every_step(steps: int) -> None:
    site = condemned(steps)
    site.ask("CONSUMER.RESET.ORDERS.c", {"seq": 1})
    site.world.settle()
    spend(site, 3)
    assert len(site.origins()) in (1, 2)
    assert site.kept() == []


# -- many letters -------------------------------------------------------------------------------------


def many_condemned(monkeypatch: pytest.MonkeyPatch, *, steps: int, word: bytes = b"+TERM") -> LetterSite:
    """Return a site that has gone some steps towards 20 letters, of which two are under way at a time."""
    monkeypatch.setattr(dead_letters, "_MOST_UNDER_WAY", 2)
    monkeypatch.setattr(dead_letters, "_STARTED_AT_ONCE", 1)
    site = LetterSite()
    site.set_up(max_deliver=1)
    for _ in range(20):
        site.world.send(b"orders.new", b"body")
    site.world.settle()
    for _, ack in site.take(20):
        if word:
            site.world.send(ack, word)
    if not word:
        site.world.advance(11)
    for _ in range(steps):
        site.world.settle_once()
        assert under_way(site) <= 2
    return site


def under_way(site: LetterSite) -> int:
    writer = site.account.streams["ORDERS"].consumers["c"].letters
    assert writer is not None
    return writer._under_way


@pytest.mark.parametrize("word", [b"+TERM", b""])
def test_a_few_letters_are_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch, word: bytes) -> None:
    site = many_condemned(monkeypatch, steps=400, word=word)
    site.world.settle()
    assert site.origins() == list(range(1, 21))
    assert (site.kept(), under_way(site)) == ([], 0)


@pytest.mark.parametrize("steps", range(0, 60, 5))
def test_letters_in_line_go_on_in_another_stream(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    site = many_condemned(monkeypatch, steps=steps)
    stored = set(site.origins())
    site.ask("STREAM.DELETE.DLQ")
    site.world.settle()
    site.stream("DLQ", "dlq.>")
    for _ in range(8):
        spend(site)
    gone_with_stream = set(range(1, 21)) - set(site.origins())
    assert stored <= gone_with_stream
    assert len(gone_with_stream - stored) <= 2
    assert (site.kept(), under_way(site)) == ([], 0)


@pytest.mark.parametrize("steps", range(0, 60, 5))
def test_a_reset_condemns_what_is_in_line_anew(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    site = many_condemned(monkeypatch, steps=steps)
    site.ask("CONSUMER.RESET.ORDERS.c", {"seq": 1})
    site.world.settle()
    for _ in range(3):
        spend(site)
    assert set(site.origins()) == set(range(1, 21))
    assert (site.kept(), under_way(site)) == ([], 0)


@pytest.mark.parametrize("steps", range(0, 60, 5))
@pytest.mark.parametrize("verb", ["CONSUMER.DELETE.ORDERS.c", "STREAM.DELETE.ORDERS"])
def test_letters_in_line_end_with_their_consumer(
    monkeypatch: pytest.MonkeyPatch, verb: str, steps: int
) -> None:
    site = many_condemned(monkeypatch, steps=steps)
    writer = site.account.streams["ORDERS"].consumers["c"].letters
    assert writer is not None
    site.ask(verb)
    site.world.settle()
    assert not writer._line
    if "ORDERS" in site.account.streams:
        assert sorted({*site.origins(), *site.kept()}) == list(range(1, 21))
    site.world.send(b"dlq.other", b"x", reply=b"_INBOX.other")
    site.world.settle()
    assert any(each.subject == b"_INBOX.other" for each in site.world.published)  # its commits go on


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_while_letters_are_in_line(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    site = many_condemned(monkeypatch, steps=seed * 12)
    again = site.after_power_cut(list(Keep)[seed % len(Keep)], seed)
    again.world.advance(11)
    for _ in range(3):
        spend(again)
    assert sorted(again.origins()) == list(range(1, 21))
    assert again.kept() == []


def test_a_world_without_letters_costs_no_entry() -> None:
    site = LetterSite(CrashFileSystem())
    assert isinstance(site.world, FakeWorld)
    site.set_up(metadata={})
    assert site.account.streams["ORDERS"].consumers["c"].letters is None
