"""A stream against a naive one: random publishing, removing, reconfiguring and restarting."""

from __future__ import annotations

import base64
import functools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from stream_kit import Site

from millrace.jetstream import account
from millrace.store.log import DEFAULT_SEGMENT_SIZE
from millrace.store.recovery import open_log
from millrace.subjects.match import matches

SUBJECTS = ["s.a", "s.b", "s.c.d"]
PATTERNS = ["s.a", "s.*", "s.>", ">", "s.c.*", "s.zz"]
_subjects = st.sampled_from(SUBJECTS)
_patterns = st.sampled_from(PATTERNS)


class Naive:
    """What a stream should hold, the slow way."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, str, bytes]] = []
        self.last = 0
        self.most = 0
        self.most_per_subject = 0

    def publish(self, subject: str, payload: bytes, rollup: str = "") -> int:
        self.last += 1
        if rollup == "all":
            self.messages = []
        elif rollup == "sub":
            self.messages = [each for each in self.messages if each[1] != subject]
        self.messages.append((self.last, subject, payload))
        self.enforce()
        return self.last

    def enforce(self) -> None:
        if self.most_per_subject:
            for subject in SUBJECTS:
                of_subject = [each for each in self.messages if each[1] == subject]
                for each in of_subject[: -self.most_per_subject]:
                    self.messages.remove(each)
        if self.most:
            self.messages = self.messages[-self.most :]

    def purge(self, pattern: str, below: int, keep: int) -> int:
        chosen = [
            each for each in self.messages if not pattern or matches(each[1].encode(), pattern.encode())
        ]
        if below:
            chosen = [each for each in chosen if each[0] < below]
            if pattern in ("", ">") and below > self.last + 1:
                self.last = below - 1
        if keep:
            chosen = chosen[:-keep]
        self.messages = [each for each in self.messages if each not in chosen]
        return len(chosen)


class StreamMachine(RuleBasedStateMachine):
    storage = "file"

    def __init__(self) -> None:
        super().__init__()
        self.naive = Naive()
        self.site = Site()

    @initialize(most=st.sampled_from([0, 0, 5]), per_subject=st.sampled_from([0, 0, 1, 2]))
    def begin(self, most: int, per_subject: int) -> None:
        self.site.create(**self.config(most, per_subject))

    def config(self, most: int, per_subject: int) -> dict[str, Any]:
        self.naive.most, self.naive.most_per_subject = most, per_subject
        return {
            "storage": self.storage,
            "allow_rollup_hdrs": True,
            "max_msgs": most,
            "max_msgs_per_subject": per_subject,
        }

    @rule(subject=_subjects, payload=st.binary(max_size=20), with_header=st.booleans())
    def publish(self, subject: str, payload: bytes, with_header: bool) -> None:
        answer = self.site.publish(subject, payload, **({"X": "y"} if with_header else {}))
        assert answer["seq"] == self.naive.publish(subject, payload)

    @rule(subject=_subjects, rollup=st.sampled_from(["sub", "all"]))
    def roll_up(self, subject: str, rollup: str) -> None:
        answer = self.site.publish(subject, b"", Nats_Rollup=rollup)
        assert answer["seq"] == self.naive.publish(subject, b"", rollup)

    @rule(subjects=st.lists(_subjects, min_size=1, max_size=8))
    def publish_many_in_one_commit(self, subjects: list[str]) -> None:
        for subject in subjects:
            self.site.world.send(subject.encode(), b"many")
            self.naive.publish(subject, b"many")
        self.site.world.settle()

    @rule(seq=st.integers(0, 30), erase=st.booleans())
    def delete(self, seq: int, erase: bool) -> None:
        answer = self.site.ask("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": not erase})
        found = [each for each in self.naive.messages if each[0] == seq]
        assert answer.get("success", False) == bool(found)
        self.naive.messages = [each for each in self.naive.messages if each[0] != seq]

    @rule(pattern=st.sampled_from(["", *PATTERNS]), below=st.integers(0, 40), keep=st.integers(0, 4))
    def purge(self, pattern: str, below: int, keep: int) -> None:
        if below:
            keep = 0
        answer = self.site.ask("STREAM.PURGE.S", {"filter": pattern, "seq": below, "keep": keep})
        assert answer["purged"] == self.naive.purge(pattern, below, keep)

    @rule(most=st.sampled_from([0, 3, 5]), per_subject=st.sampled_from([0, 1, 2]))
    def reconfigure(self, most: int, per_subject: int) -> None:
        assert "error" not in self.site.update(**self.config(most, per_subject))
        self.site.world.settle()
        self.naive.enforce()

    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        if self.storage == "file":
            self.site = self.site.restarted(orderly=orderly)

    @rule()
    def fail_and_recover(self) -> None:
        if self.storage == "file":
            self.site.disk.full = True
            self.site.world.send(b"s.a", b"late")
            self.site.world.settle()
            self.site.disk.full = False
            self.site.world.advance(1)
            self.naive.publish("s.a", b"late")

    @invariant()
    def holds_the_same(self) -> None:
        if not self.site.account.streams:
            return
        state = self.site.state()
        messages = self.naive.messages
        assert state["messages"] == len(messages)
        assert state["last_seq"] == self.naive.last
        if self.naive.last:
            assert state["first_seq"] == (messages[0][0] if messages else self.naive.last + 1)
        assert state.get("num_subjects", 0) == len({subject for _, subject, _ in messages})
        gaps = self.naive.last - messages[0][0] + 1 - len(messages) if messages else 0
        assert state.get("num_deleted", 0) == gaps
        for seq, subject, payload in messages:
            found = self.site.ask("STREAM.MSG.GET.S", {"seq": seq})["message"]
            assert found["subject"] == subject
            assert base64.b64decode(found.get("data", "")) == payload

    @invariant()
    def finds_the_same(self) -> None:
        if not self.site.account.streams:
            return
        for pattern in PATTERNS:
            of_pattern = [
                seq for seq, subject, _ in self.naive.messages if matches(subject.encode(), pattern.encode())
            ]
            for request, expected in (
                ({"last_by_subj": pattern}, of_pattern[-1:]),
                ({"next_by_subj": pattern}, of_pattern[:1]),
            ):
                answer = self.site.ask("STREAM.MSG.GET.S", request)
                found = [answer["message"]["seq"]] if "message" in answer else []
                assert found == expected


class MemoryStreamMachine(StreamMachine):
    storage = "memory"


@pytest.mark.parametrize("machine", [StreamMachine, MemoryStreamMachine])
@pytest.mark.parametrize("segment_size", [DEFAULT_SEGMENT_SIZE, 250])
def test_a_stream_does_what_a_naive_one_does(
    machine: type[StreamMachine], segment_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "open_log", functools.partial(open_log, segment_size=segment_size))
    run_state_machine_as_test(
        machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None)
    )
