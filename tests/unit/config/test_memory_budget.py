"""`memory_budget` in the `millstream` block."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.base.budget import Budget, Share
from millstream.config import ConfigError, ServerOptions
from millstream.config.load import load
from millstream.config.reload import Area, plan_reload

MIB = 1024 * 1024


def options(folder: Path, text: str) -> ServerOptions:
    path = folder / "server.conf"
    path.write_text("jetstream: enabled\n" + text)
    return load(path)


@pytest.mark.parametrize(("text", "size"), [("", 64 * MIB), ("millstream { memory_budget: 16MB }", 16 * MIB)])
def test_it_is_a_size(tmp_path: Path, text: str, size: int) -> None:
    assert options(tmp_path, text).jetstream.memory_budget == size


@pytest.mark.parametrize("value", ["1MB", "0", "-1", "much"])
def test_what_is_too_little_or_no_size_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="memory_budget"):
        options(tmp_path, f"millstream {{ memory_budget: {value} }}")


def test_a_reload_changes_it(tmp_path: Path) -> None:
    before = options(tmp_path, "")
    plan = plan_reload(before, options(tmp_path, "millstream { memory_budget: 32MB }"))
    assert Area.JETSTREAM in plan.areas


def test_a_share_counts_what_is_taken_and_given_back() -> None:
    share = Share(10)
    share.take(11)
    assert share.is_exceeded()
    share.take(-1)
    assert (share.used, share.is_exceeded()) == (10, False)


def test_shares_follow_the_budget() -> None:
    budget = Budget()
    before = budget.tables.limit
    budget.set(16 * MIB)
    assert 0 < budget.tables.limit < before
