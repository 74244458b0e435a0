"""Servers of both kinds for the whole session, and names that no two tests share."""

import itertools

import pytest

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Return the name of a stream that does not exist yet; its subjects are `<name>.>`."""
    return f"MOVED{next(_numbers)}"
