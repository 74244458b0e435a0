"""The suites of nats.py that run: its client libraries' own tests, and the tests left out with the reason.

Whole files or single tests are left out, nothing by pattern, so that a test that joins upstream is run.
"""

from dataclasses import dataclass
from typing import Final

CLUSTER: Final = "starts servers that are joined by routes; Millstream is a single server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one library.  Paths are relative to the checkout."""

    name: str
    folder: str  # where pytest starts: configuration files name certificates relative to it
    tests: str  # relative to `folder`
    sources: tuple[str, ...]
    modules: tuple[str, ...]  # that the tests import, besides the library itself
    python: tuple[int, int]  # the oldest that can run it
    ports: tuple[int, ...]  # fixed in the tests
    left_out_files: dict[str, str]
    left_out_tests: dict[str, str]


NATS: Final = Suite(
    name="nats",
    folder=".",
    tests="nats/tests",
    sources=("nats/src",),
    modules=("pytest", "pytest_asyncio", "nkeys", "aiohttp"),
    python=(3, 8),
    ports=(4221, 4222, 4223, 4224, 4225, 4555, 8080, 8081, 8222, 8223, 8224, 8225),
    left_out_files={},
    left_out_tests={
        **dict.fromkeys(
            (
                f"nats/tests/test_client.py::{test}"
                for test in (
                    "ClusterDiscoveryTest::test_discover_servers_on_first_connect",
                    "ClusterDiscoveryTest::test_discover_servers_after_first_connect",
                    "ClusterDiscoveryReconnectTest::test_reconnect_to_new_server_with_auth",
                    "ClusterDiscoveryReconnectTest::test_reconnect_buf_disabled",
                    "ClusterDiscoveryReconnectTest::test_reconnect_buf_size",
                    "ClusterDiscoveryReconnectTest::test_buf_size_force_flush",
                    "ClusterDiscoveryReconnectTest::test_buf_size_force_flush_timeout",
                )
            ),
            CLUSTER,
        ),
    },
)

NATS_CORE: Final = Suite(
    name="nats-core",
    folder="nats-core",
    tests="tests",
    sources=("nats-core/src", "nats-server/src"),
    modules=("pytest", "pytest_asyncio", "nkeys", "websockets"),
    python=(3, 13),
    ports=(),
    left_out_files={},
    left_out_tests={
        "tests/test_client.py::test_cluster_reconnect_sequential_shutdown[3]": CLUSTER,
        "tests/test_client.py::test_cluster_reconnect_sequential_shutdown[5]": CLUSTER,
    },
)

NATS_JETSTREAM: Final = Suite(
    name="nats-jetstream",
    folder="nats-jetstream",
    tests="tests",
    sources=("nats-jetstream/src", "nats-core/src", "nats-server/src"),
    modules=("pytest", "pytest_asyncio"),
    python=(3, 13),
    ports=(),
    left_out_files={},
    left_out_tests={},
)

NATS_KEY_VALUE: Final = Suite(
    name="nats-key-value",
    folder="nats-key-value",
    tests="tests",
    sources=("nats-key-value/src", "nats-jetstream/src", "nats-core/src", "nats-server/src"),
    modules=("pytest", "pytest_asyncio", "nkeys"),
    python=(3, 13),
    ports=(),
    left_out_files={},
    left_out_tests={},
)

SUITES: Final = (NATS, NATS_CORE, NATS_JETSTREAM, NATS_KEY_VALUE)
