"""Servers of both kinds for the whole session, and names that no two tests share."""

import itertools

import pytest

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Of a stream that nobody has used; its subjects are `<name>.>`."""
    return f"MOVED{next(_numbers)}"
