"""The small parts of the client: phases, delays, errors, names, and what it exports."""

import inspect
import random

import pytest

import millstream.client
from millstream.client import RequestRefused, StreamNotFound
from millstream.client.api import check_name
from millstream.client.state import ENDED, MOVES, IllegalMove, Phase, ReadingEvent, step
from millstream.link.errors import LinkApiError
from millstream.link.servers import Backoff


def test_every_pair_is_a_move_or_an_error() -> None:
    for phase in Phase:
        for event in ReadingEvent:
            if (phase, event) in MOVES:
                assert step(phase, event) is MOVES[phase, event]
            else:
                with pytest.raises(IllegalMove, match=phase.value):
                    step(phase, event)


def test_what_has_ended_stays_as_it_is() -> None:
    for phase, event in MOVES:
        if phase in ENDED:
            assert event is ReadingEvent.CLOSE
            assert MOVES[phase, event] is phase


def test_a_reading_can_be_closed_in_every_phase() -> None:
    assert all((phase, ReadingEvent.CLOSE) in MOVES for phase in Phase)


def test_delays_start_at_nothing_grow_and_are_bounded() -> None:
    backoff = Backoff(first_s=0.1, longest_s=1.0, generator=random.Random(1))
    delays = [backoff.next_s() for _ in range(2000)]
    assert delays[0] == 0.0
    for number, delay in enumerate(delays[1:]):
        whole = min(0.1 * 2.0 ** min(number, 10), 1.0)
        assert whole / 2 <= delay <= whole
    assert len(set(delays)) > 1900  # by chance, so that many readers do not come all at once
    backoff.succeeded()
    assert backoff.next_s() == 0.0


def refused(status: int, code: int, description: str) -> RequestRefused:
    return RequestRefused.told_by(LinkApiError(status, code, description), "S", "host:1")


def test_refusals_are_told_apart_by_their_numbers() -> None:
    gone = refused(404, 10059, "stream not found")
    assert isinstance(gone, StreamNotFound)
    assert not gone.may_pass
    assert str(gone) == "there is no stream S on host:1; create it, or check the name (10059)"
    assert refused(503, 10008, "JetStream system temporarily unavailable").may_pass
    assert refused(400, 10026, "maximum consumers limit reached").may_pass
    assert not refused(400, 10138, "overlap").may_pass


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a/b", "a\\b", "a\n"])
def test_a_name_that_is_no_single_token_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a stream"):
        check_name(name, "stream")


def test_the_export_list_is_complete_and_nothing_else_is_exported() -> None:
    public = {
        name
        for name, value in vars(millstream.client).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(millstream.client.__all__)
