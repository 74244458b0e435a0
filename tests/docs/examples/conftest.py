"""The room that all pages are gone through in: one for a run of the tests, in one worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.docs.room import Room


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = Room(tmp_path_factory.mktemp("docs"))
    yield room
    room.close()


@pytest.fixture
def fresh_room(tmp_path: Path) -> Iterator[Room]:
    """A room that nobody has been in."""
    room = Room(tmp_path)
    yield room
    room.close()
