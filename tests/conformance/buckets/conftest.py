"""Key-value buckets and object stores of nats-py, on either server and either storage."""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig, StorageType
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from tests.kits.conformance.buckets import MakeKeyValue, MakeObjects
from tests.kits.conformance.clients import ServerFactory, library
from tests.kits.garbage import garbage_collected
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _leave_no_garbage_to_other_tests() -> Iterator[None]:
    with garbage_collected():
        yield


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest) -> StorageType:
    return StorageType(request.param)


@pytest.fixture
def bucket_server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(jetstream=True)


@pytest_asyncio.fixture
async def js(bucket_server: ServerProcess) -> AsyncIterator[JetStreamContext]:
    connection = await library(bucket_server.client_url)
    yield connection.jetstream(timeout=PATIENCE_S)
    await connection.close()


@pytest_asyncio.fixture
async def make_key_value(js: JetStreamContext, storage: StorageType) -> AsyncIterator[MakeKeyValue]:
    """`make_key_value(**config)` creates a bucket that goes when the test ends."""
    made: list[str] = []

    async def make(**config: object) -> KeyValue:
        name = f"K{next(_numbers)}"
        bucket = await js.create_key_value(KeyValueConfig(bucket=name, storage=storage, **config))  # type: ignore[arg-type]
        made.append(name)
        return bucket

    yield make
    for name in made:
        await js.delete_key_value(name)


@pytest_asyncio.fixture
async def make_objects(js: JetStreamContext, storage: StorageType) -> AsyncIterator[MakeObjects]:
    """`make_objects(**config)` creates an object store that goes when the test ends."""
    made: list[str] = []

    async def make(**config: object) -> ObjectStore:
        name = f"O{next(_numbers)}"
        config_ = ObjectStoreConfig(storage=storage, **config)  # type: ignore[arg-type]
        store = await js.create_object_store(name, config_)
        made.append(name)
        return store

    yield make
    for name in made:
        await js.delete_object_store(name)
