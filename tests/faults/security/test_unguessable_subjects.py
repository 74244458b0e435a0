"""A subject that acts as a capability cannot be guessed from others."""

from __future__ import annotations

import re
from pathlib import Path

from millstream.base.ids import secret_token
from tests.kits.security.gate import client, running

CONFIG = """
accounts {
  BANK {
    users: [{user: bank, password: bank}]
    exports: [{service: "balance"}]
  }
  TENANT {
    users: [{user: tenant, password: tenant}]
    imports: [{service: {account: BANK, subject: "balance"}}]
  }
}
"""


def test_reply_subjects_of_a_service_are_random() -> None:
    with running(CONFIG) as server, client(server, "bank") as bank, client(server, "tenant") as tenant:
        bank.round_trip(b"SUB balance 1\r\n")
        replies = []
        for _ in range(50):
            tenant.publish("balance", b"", b"inbox")
            replies.append(bank.wire.read_frame().split(b" ")[3])
        tokens = {reply.rpartition(b".")[2] for reply in replies}
        assert len(tokens) == 50
        assert all(re.fullmatch(rb"_R_\.[0-9A-Za-z]{22}\.[0-9A-Za-z]{22}", reply) for reply in replies)
        tenant.round_trip(b"SUB inbox 1\r\n")
        bank.publish(replies[0], b"1000.00")
        assert b"1000.00" in tenant.round_trip()
        assert len({token[:4] for token in tokens}) > 40  # neither counted nor from one draw


def test_secret_tokens_are_tokens() -> None:
    drawn = {secret_token() for _ in range(10_000)}
    assert len(drawn) == 10_000
    assert all(re.fullmatch(r"[0-9A-Za-z]{22}", token) for token in drawn)


def test_subjects_of_snapshots_and_restores_are_random(tmp_path: Path) -> None:
    with running("", tmp_path) as server, client(server) as user:
        answers = [
            user.api(f"STREAM.RESTORE.R{number}", {"config": {"name": f"R{number}"}, "state": {}})
            for number in range(3)
        ]
        tokens = [answer["deliver_subject"].rpartition(".")[2] for answer in answers]
        assert len({token[:12] for token in tokens}) == 3
