"""Power cuts on the FUSE volume: Millstream keeps its promises, and the test can see a loss."""

from __future__ import annotations

import ctypes.util
import os
import shutil

import pytest

from tests.kits.reference import ServerKind

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not os.path.exists("/dev/fuse")
        or ctypes.util.find_library("fuse3") is None
        or shutil.which("fusermount3") is None,
        reason="needs /dev/fuse, libfuse3 and fusermount3",
    ),
]


def test_nothing_is_lost_when_power_goes() -> None:
    from tests.power.cuts import run_trial

    trial, violations = run_trial(ServerKind.MILLSTREAM, seed=1, cuts=10)
    assert violations == []
    assert trial.cuts == 10


def test_a_server_that_does_not_sync_is_seen_to_lose_messages() -> None:
    from tests.power.cuts import run_trial

    _, violations = run_trial(ServerKind.NATS_SERVER, seed=0, cuts=10)
    assert any("acknowledged" in line for line in violations)
