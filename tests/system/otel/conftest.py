"""A collector on loopback, and servers that wait for it when they stop."""

from collections.abc import Iterator

import pytest

from millstream.otel import sender
from tests.kits.collector import Collector
from tests.kits.patience import PATIENCE_S


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Yield a collector that takes everything; a server that stops waits for it as long as that needs."""
    monkeypatch.setattr(sender, "STOP_S", PATIENCE_S)
    with Collector() as collector:
        yield collector
