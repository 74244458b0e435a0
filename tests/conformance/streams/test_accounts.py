"""JetStream of accounts: what they have and use, limits, accounts without it, domains, the system account."""

import pytest

from tests.conformance.streams.test_lifecycle import CLUSTER_ONLY, ENDPOINTS
from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.streams import OpenSession, Session
from tests.kits.reference import ServerProcess

MEGABYTE = 2**20

ACCOUNTS = """
server_name: probe
system_account: SYS
jetstream: {max_mem: 1GB, max_file: 4GB}
accounts: {
  SYS: {users: [{user: sys, password: p}]}
  WITHOUT: {users: [{user: without, password: p}]}
  WITH: {jetstream: enabled, users: [{user: with, password: p}]}
  PURGED: {jetstream: enabled, users: [{user: purged, password: p}]}
}
"""
DOMAIN = """
server_name: probe
jetstream: {max_mem: 1GB, max_file: 4GB, domain: hub}
accounts: {
  A: {jetstream: enabled, users: [{user: a0, password: p}]}
  B: {jetstream: enabled, users: [{user: "$JS.hub.API", password: p}]}
  C: {jetstream: enabled, users: [{user: "$JS.other.API", password: p}]}
  D: {jetstream: enabled, users: [{user: "$JS.HUB.API", password: p}]}
  WITHOUT: {users: [{user: without, password: p}]}
}
"""
LIMITS = {
    "streams": "max_streams: 2",
    "storage": "max_store: 1000",
    "memory": "max_mem: 1000",
    "both": "max_mem: 5000, max_store: 8000, max_streams: 5, max_consumers: 7",
    "sizes": "max_bytes_required: true, memory_max_stream_bytes: 100, disk_max_stream_bytes: 200",
    "pending": "max_ack_pending: 77",
    "none": "max_mem: 0, max_store: 0",
}


@pytest.fixture
def servers(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=ACCOUNTS, jetstream=True, monitor=True)


# -- what an account has and uses ------------------------------------------------------------------------


def test_account_info_counts_what_is_there(js: Session) -> None:
    js.ask("INFO")
    js.create("F", subjects=["f"], max_bytes=1000)
    js.create("M", subjects=["m"], storage="memory", max_bytes=500)
    js.create("U", subjects=["u"])
    js.fill("f", "m", "u", "f")
    js.publish("f", "with", {"A": "header"})
    js.publish("m", "with", {"A": "header"})
    js.ask("INFO")
    js.ask("INFO", "{")
    js.do("STREAM.MSG.DELETE.F", {"seq": 1})
    js.do("STREAM.PURGE.M")
    js.ask("INFO")
    js.do("STREAM.DELETE.F")
    js.do("STREAM.DELETE.M")
    js.ask("INFO")


def test_api_calls_are_counted(js: Session) -> None:
    js.ask("INFO")
    js.create()
    js.ask("INFO")
    js.request("$JS.API.STREAM.INFO.NONE", b"")
    js.ask("INFO")
    js.publish("S")
    js.do("STREAM.MSG.GET.S", {"seq": 1})
    js.ask("INFO")
    for request in ("STREAM.MSG.GET.S", "STREAM.MSG.DELETE.S", "STREAM.UPDATE.S", "STREAM.CREATE.S"):
        js.request(f"$JS.API.{request}", b"{")
    js.ask("INFO")
    js.request("$JS.API.STREAM.MSG.DELETE.S", {"seq": 5})
    js.ask("INFO")
    js.request("$JS.API.STREAM.MSG.GET.S", {"seq": 5})
    js.ask("INFO")
    js.request("$JS.API.STREAM.LEADER.STEPDOWN.S", b"")
    js.ask("INFO")
    js.do("STREAM.PURGE.S")
    js.do("STREAM.NAMES")
    js.do("STREAM.LIST")
    js.do("STREAM.INFO.S")
    js.do("STREAM.DELETE.S")
    js.ask("INFO")


# -- limits ----------------------------------------------------------------------------------------------


def limited_config() -> str:
    """An account for each of the limits, and another one to be filled."""
    accounts = "\n".join(
        f"{kind}_{name}: {{jetstream: {{{limits}}}, users: [{{user: {kind}_{name}, password: p}}]}}"
        for name, limits in LIMITS.items()
        for kind in ("shown", "filled")
    )
    return f"jetstream: {{max_mem: 1GB, max_file: 4GB}}\naccounts: {{\n{accounts}\n}}\n"


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_are_shown_and_hold(
    open_session: OpenSession, shared_server: ServerFactory, limits: str
) -> None:
    js = open_session(shared_server(config=limited_config(), jetstream=True), f"shown_{limits}")
    js.ask("INFO")
    js.ask("STREAM.CREATE.A", {"name": "A", "storage": "file", "max_bytes": 150})
    js.ask("STREAM.CREATE.B", {"name": "B", "storage": "memory", "max_bytes": 90})
    js.ask("STREAM.CREATE.C", {"name": "C", "storage": "file"})
    js.ask("STREAM.CREATE.D", {"name": "D", "storage": "memory"})
    js.ask("STREAM.CREATE.E", {"name": "E", "storage": "file", "max_bytes": 4000})
    js.ask("STREAM.CREATE.F", {"name": "F", "storage": "memory", "max_bytes": 4500})
    js.ask("STREAM.UPDATE.A", {"name": "A", "storage": "file", "max_bytes": 900})
    js.ask("INFO")


@pytest.mark.parametrize("limits", ["storage", "memory"])
def test_an_account_that_is_full_takes_no_more_messages(
    open_session: OpenSession, shared_server: ServerFactory, limits: str
) -> None:
    js = open_session(shared_server(config=limited_config(), jetstream=True), f"filled_{limits}")
    for name, storage in (("A", "file"), ("B", "memory")):
        js.create(name, storage=storage)
        for size in (300, 300, 300, 300, 10):
            js.ask_subject(name, b"x" * size)
    js.ask("INFO")


# -- accounts without --------------------------------------------------------------------------------------


def test_an_account_without_is_told_so(open_session: OpenSession, servers: ServerProcess) -> None:
    js = open_session(servers, "without")
    for endpoint in ENDPOINTS:
        js.ask(endpoint)
    for endpoint in CLUSTER_ONLY:
        js.ask(endpoint)
    js.ask("STREAM.CREATE.S", "{")
    js.ask("INFO", "", {"Nats-Required-Api-Level": "9"})
    js.ask("DIRECT.GET.S", {"seq": 1})
    js.ask("CONSUMER.MSG.NEXT.S.C")
    js.hear("UNKNOWN")
    js.hear("STREAM.UNKNOWN.S")


def test_the_info_of_a_connection_says_whether_there_is_jetstream(
    open_session: OpenSession, servers: ServerProcess
) -> None:
    for user in ("with", "without", "sys"):
        js = open_session(servers, user)
        js.note({key: js.client.info.get(key) for key in ("jetstream", "domain")}, asked=f"INFO of {user}")


def test_a_server_without_has_no_responders(open_session: OpenSession, shared_server: ServerFactory) -> None:
    config = "accounts: {a0: {users: [{user: a0, password: p}]}}"
    js = open_session(shared_server(config=config))
    js.ask("INFO")
    js.ask("STREAM.NAMES")
    js.ask("DIRECT.GET.S", {"seq": 1})
    js.note({key: js.client.info.get(key) for key in ("jetstream", "domain")}, asked="INFO")


# -- the system account ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb",
    [
        *ENDPOINTS,
        *CLUSTER_ONLY,
        "UNKNOWN",
        "STREAM.UNKNOWN.S",
        "DIRECT.GET.S",
        "CONSUMER.MSG.NEXT.S.C",
        "META.LEADER.STEPDOWN",
        "META.RESCUE",
        "SERVER.REMOVE",
        "SERVER.EVACUATE",
        "ACCOUNT.STREAM.MOVE.WITH.S",
        "ACCOUNT.STREAM.CANCEL_MOVE.WITH.S",
        "ACCOUNT.PURGE.NOBODY",
        "ACCOUNT.PURGE",
        "ACCOUNT.x",
    ],
)
def test_the_system_account(open_session: OpenSession, servers: ServerProcess, verb: str) -> None:
    js = open_session(servers, "sys")
    js.hear(verb)
    js.hear(verb, "x")
    js.hear(verb, "", {"Nats-Required-Api-Level": "9"})


def test_the_system_account_has_an_account_purged(open_session: OpenSession, servers: ServerProcess) -> None:
    js = open_session(servers, "purged")
    js.create("A")
    js.create("B", storage="memory")
    js.publish("A")
    system = open_session(servers, "sys")
    system.ask("ACCOUNT.PURGE.PURGED")
    js.eventually("STREAM.NAMES", lambda answer: answer["total"] == 0)
    js.ask("STREAM.LIST")


# -- domains -----------------------------------------------------------------------------------------------


def test_a_domain_is_part_of_answers(open_session: OpenSession, shared_server: ServerFactory) -> None:
    js = open_session(shared_server(config=DOMAIN, jetstream=True))
    js.note({key: js.client.info.get(key) for key in ("jetstream", "domain")}, asked="INFO")
    js.ask("INFO")
    js.ask("STREAM.CREATE.S", {"name": "S", "allow_direct": True})
    js.ask("STREAM.UPDATE.S", {"name": "S", "allow_direct": True, "max_msgs": 5})
    js.ask("STREAM.INFO.S")
    js.ask("STREAM.LIST")
    js.ask_subject("S", "x")
    js.get("S", {"seq": 1})
    js.ask("STREAM.DELETE.S")


@pytest.mark.parametrize("prefix", ["$JS.hub.API", "$JS.other.API", "$JS.HUB.API"])
def test_an_api_can_be_asked_by_its_domain(
    open_session: OpenSession, shared_server: ServerFactory, prefix: str
) -> None:
    js = open_session(shared_server(config=DOMAIN, jetstream=True), user=prefix)
    js.ask_subject(f"{prefix}.INFO")
    js.create("S", allow_direct=True)
    js.publish("S", "one")
    js.ask_subject(f"{prefix}.STREAM.INFO.S")
    js.ask_subject(f"{prefix}.STREAM.NAMES")
    js.ask_subject(f"{prefix}.DIRECT.GET.S", {"seq": 1})
    js.ask_subject(f"{prefix}.DIRECT.GET.S.S")
    js.ask_subject(f"{prefix}.CONSUMER.MSG.NEXT.S.C")
    js.hear_subject(f"{prefix}.META.LEADER.STEPDOWN")
    js.hear_subject(f"{prefix}.UNKNOWN")
    js.hear_subject(f"{prefix}.STREAM.UNKNOWN.S")
    js.do("STREAM.DELETE.S")


def test_a_domain_in_an_account_without(open_session: OpenSession, shared_server: ServerFactory) -> None:
    js = open_session(shared_server(config=DOMAIN, jetstream=True), "without")
    js.ask("INFO")
    js.ask_subject("$JS.hub.API.INFO")
    js.ask_subject("$JS.hub.API.STREAM.NAMES")


# -- the API of another account ----------------------------------------------------------------------------

IMPORTS = """
server_name: probe
jetstream: {max_mem: 1GB, max_file: 4GB}
accounts: {
  A: {jetstream: enabled, users: [{user: a, password: p}], exports: [
    {service: "$JS.API.>", response_type: stream}
    {service: "orders.>"}
  ]}
  B: {users: [{user: without, password: p}], imports: [
    {service: {account: A, subject: "$JS.API.>"}}
    {service: {account: A, subject: "orders.>"}}
  ]}
  C: {jetstream: enabled, users: [{user: with, password: p}], imports: [
    {service: {account: A, subject: "$JS.API.>"}, to: "from_a.API.>"}
  ]}
  D: {users: [{user: some, password: p}], imports: [
    {service: {account: A, subject: "$JS.API.STREAM.NAMES"}}
    {service: {account: A, subject: "$JS.API.DIRECT.GET.S"}}
  ]}
}
"""


def with_orders(open_session: OpenSession, shared_server: ServerFactory, user: str) -> Session:
    """A session of a user who imports from an account that has a stream."""
    server = shared_server(config=IMPORTS, jetstream=True)
    owner = open_session(server, "a")
    if owner.do("STREAM.NAMES")["total"] == 0:
        owner.create("S", subjects=["orders.>"], allow_direct=True, storage="memory")
        owner.publish("orders.1", "one")
    return open_session(server, user)


def test_an_account_without_uses_the_api_of_another(
    open_session: OpenSession, shared_server: ServerFactory
) -> None:
    js = with_orders(open_session, shared_server, "without")
    js.ask("STREAM.NAMES")
    js.ask("STREAM.INFO.NONE")
    js.ask("STREAM.MSG.GET.S", {"seq": 1})
    js.get("S", {"seq": 1})
    js.get("S.orders.1")
    js.get("NONE", {"seq": 1})
    js.hear("UNKNOWN")
    js.hear("STREAM.UNKNOWN.S")


def test_an_account_with_uses_the_api_of_another_by_another_name(
    open_session: OpenSession, shared_server: ServerFactory
) -> None:
    js = with_orders(open_session, shared_server, "with")
    js.ask("STREAM.NAMES")
    js.ask_subject("from_a.API.STREAM.NAMES")
    js.ask_subject("from_a.API.STREAM.MSG.GET.S", {"seq": 1})
    js.ask_subject("from_a.API.DIRECT.GET.S", {"seq": 1})
    js.ask_subject("from_a.API.DIRECT.GET.NONE", {"seq": 1})
    js.ask("DIRECT.GET.S", {"seq": 1})


def test_an_account_may_import_parts_of_an_api(
    open_session: OpenSession, shared_server: ServerFactory
) -> None:
    js = with_orders(open_session, shared_server, "some")
    js.get("S", {"seq": 1})
    js.ask("STREAM.INFO.S")
