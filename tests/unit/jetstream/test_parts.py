"""The parts of streams, imported with the first of them."""

import pytest

from millstream.jetstream import parts


@pytest.mark.parametrize("name", parts.PLACES)
def test_every_part_is_where_it_is_looked_for(name: str) -> None:
    assert getattr(parts, name).__module__ == parts.PLACES[name]
    assert vars(parts)[name] is getattr(parts, name)  # kept: the next use costs a look at a dictionary


def test_there_is_nothing_else() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = parts.nothing  # type: ignore[attr-defined]
