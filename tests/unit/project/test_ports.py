"""The ports between JetStream and the server stay narrow: more than twelve calls would be two ports."""

import inspect

import pytest

from millstream.jetstream.ports import Host, JournalOfCommits, Messaging, Requester, Writers

_MOST_CALLS = 12


@pytest.mark.parametrize("port", [Host, JournalOfCommits, Messaging, Requester, Writers])
def test_a_port_has_at_most_twelve_calls(port: type) -> None:
    calls = [name for name, value in vars(port).items() if inspect.isfunction(value) and name[0] != "_"]
    assert 0 < len(calls) <= _MOST_CALLS
