"""Descriptors for connections, and those reserved for the store."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from millstream.base import descriptors


@pytest.mark.parametrize(
    ("limit", "kept"), [(64, 16), (128, 16), (1024, 128), (4096, 256), (resource.RLIM_INFINITY, 256)]
)
def test_a_part_is_kept_for_the_store(limit: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert descriptors.kept_for_store()[0] == kept


def test_a_connection_with_a_number_close_to_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert not descriptors.is_kept(1024 - 128 - 1)
    assert descriptors.is_kept(1024 - 128)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300));"
        "from millstream.base.descriptors import raise_soft_limit;"
        "print(raise_soft_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "300 (300, 300)\n"
