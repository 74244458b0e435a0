"""No step of the loop does much work, whatever request of the API or the system account arrives.

Every endpoint is here, so that a new one is looked at, too.  What changes much is in ``test_steps_at_size``.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from millstream.jetstream import api
from millstream.server.system.documents import ACCOUNT_DOCUMENTS, SERVER_DOCUMENTS
from tests.kits.large_site import (
    Hold,
    Site,
    assert_short_steps,
    clients,
    consumers,
    filled,
    messages,
    streams,
    subscriptions,
)

pytestmark = pytest.mark.compiled


def delivered(site: Site, scale: int) -> None:
    """A stream with many messages, and a consumer that waits for acknowledgements."""
    messages(site, scale)
    config = {"durable_name": "d0", "ack_policy": "explicit", "max_ack_pending": -1}
    site.ask("CONSUMER.DURABLE.CREATE.M.d0", {"stream_name": "M", "config": config})
    site.client.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.M.d0 _INBOX 5\r\n%05d\r\n" % (50 * scale))


_NEW = {"stream_name": "M", "config": {"name": "e", "ack_policy": "explicit", "filter_subject": "m.3"}}

# What the server holds, what the subject has in place of the wildcards, and the body.
REQUESTS: dict[str, tuple[Hold, str, Any]] = {
    "INFO": (streams, "", None),
    "STREAM.CREATE.*": (streams, "X", {"name": "X", "subjects": ["x"]}),
    "STREAM.UPDATE.*": (delivered, "M", {"name": "M", "subjects": ["m.*"], "max_msgs": 10}),
    "STREAM.NAMES": (streams, "", None),
    "STREAM.LIST": (streams, "", None),
    "STREAM.INFO.*": (delivered, "M", {"subjects_filter": ">", "deleted_details": True}),
    "STREAM.DELETE.*": (consumers, "M", None),
    "STREAM.PURGE.*": (delivered, "M", {"filter": "m.*", "keep": 10}),
    "STREAM.MSG.GET.*": (delivered, "M", {"last_by_subj": "m.*"}),
    "STREAM.MSG.DELETE.*": (delivered, "M", {"seq": 30}),
    "STREAM.SNAPSHOT.*": (delivered, "M", {"deliver_subject": "elsewhere"}),
    "STREAM.RESTORE.*": (streams, "X", {"config": {"name": "X"}, "state": {}}),
    "CONSUMER.CREATE.*": (delivered, "M", {"stream_name": "M", "config": {"ack_policy": "explicit"}}),
    "CONSUMER.CREATE.*.>": (delivered, "M.e.m.3", _NEW),
    "CONSUMER.DURABLE.CREATE.*.*": (
        delivered,
        "M.e",
        {"stream_name": "M", "config": {"durable_name": "e", "filter_subjects": ["m.1", "m.2"]}},
    ),
    "CONSUMER.NAMES.*": (consumers, "M", None),
    "CONSUMER.LIST.*": (consumers, "M", None),
    "CONSUMER.INFO.*.*": (delivered, "M.d0", None),
    "CONSUMER.DELETE.*.*": (delivered, "M.d0", None),
    "CONSUMER.PAUSE.*.*": (delivered, "M.d0", {"pause_until": "2040-01-01T00:00:00Z"}),
    "CONSUMER.RESET.*.*": (delivered, "M.d0", None),
    "CONSUMER.UNPIN.*.*": (delivered, "M.d0", None),
}
_READING = {"INFO", "STREAM.NAMES", "STREAM.LIST", "CONSUMER.NAMES.*", "CONSUMER.LIST.*"}
_REFUSED = {"CONSUMER.UNPIN.*.*"}  # nobody is pinned


def test_every_request_of_the_api_is_here() -> None:
    assert set(REQUESTS) == set(api._ANSWERS)


filled_once = functools.cache(filled)  # for all requests that leave the server as it is


@pytest.mark.parametrize("endpoint", REQUESTS)
def test_a_request_of_the_api(endpoint: str) -> None:
    hold, place, body = REQUESTS[endpoint]
    subject = ".".join(filter(None, (endpoint.rstrip(".*>"), place)))

    def ask(site: Site) -> None:
        if endpoint in _REFUSED:
            with pytest.raises(AssertionError, match="error"):
                site.ask(subject, body)
        else:
            site.ask(subject, body)
        site.loop.run_ready()

    small = Site()
    hold(small, 1)
    ask(small)  # what is made once in a process is no work of the step
    site = filled_once(hold) if endpoint in _READING else filled(hold)
    site.watchdog.long_steps.clear()
    with site.clock:
        ask(site)
    assert_short_steps(site)


def everything(site: Site, scale: int) -> None:
    for hold in (streams, messages, clients, subscriptions):
        hold(site, scale)


_OF_A_PROCESS = {"VARZ", "LEAFZ", "ROUTEZ", "GATEWAYZ"}  # they tell of one server, however much it holds
DOCUMENTS = [
    *(("", name) for name in SERVER_DOCUMENTS if name not in _OF_A_PROCESS),
    *(("$G", name) for name in ACCOUNT_DOCUMENTS if name not in _OF_A_PROCESS),
]


@pytest.mark.parametrize(("account", "name"), DOCUMENTS)
def test_a_document_of_the_system_account(account: str, name: str) -> None:
    document = (ACCOUNT_DOCUMENTS if account else SERVER_DOCUMENTS)[name]
    asked = {"subscriptions": True, "limit": 3000, "streams": True, "consumer": True, "config": True}
    known = {key: value for key, value in asked.items() if key in document.options.__struct_fields__}
    options = document.options(**known)
    small = Site()
    everything(small, 1)
    small.document(document.build(small.server(), options, account))
    site = filled_once(everything)
    site.watchdog.long_steps.clear()
    with site.clock:
        site.document(document.build(site.server(), options, account))
    assert_short_steps(site)
