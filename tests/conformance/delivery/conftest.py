"""Scenarios about deliveries and acks: each in an account of its own, each compared with its recording."""

import hashlib
import string
from collections.abc import Callable, Generator

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, login
from tests.kits.conformance.delivery import ACCOUNTS, Scene, config_text
from tests.kits.reference import ServerKind, ServerProcess

_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_used = dict.fromkeys(ServerKind, 0)  # accounts; when all of a server are used, there is another server


@pytest.fixture
def scenes() -> list[Scene]:
    """All clients of the test."""
    return []


@pytest.fixture
def place(shared_server: ServerFactory, server_kind: ServerKind) -> tuple[ServerProcess, str]:
    """A server, and an account there that no other test of this run has used."""
    generation, number = divmod(_used[server_kind], ACCOUNTS)
    _used[server_kind] += 1
    return shared_server(config=config_text(f"# {generation}"), jetstream=True), f"a{number}"


@pytest.fixture
def open_scene(join: Dial, lines: list[str], scenes: list[Scene]) -> Callable[..., Scene]:
    """`open_scene(server, user)` joins an account; all clients of a test share the transcript."""

    def open_one(server: ServerProcess, user: str = "") -> Scene:
        wire = login(join, server, user) if user else join(server)
        scenes.append(Scene(wire, lines))
        return scenes[-1]

    return open_one


@pytest.fixture
def js(place: tuple[ServerProcess, str], open_scene: Callable[..., Scene]) -> Scene:
    return open_scene(*place)


@pytest.fixture
def own(place: tuple[ServerProcess, str]) -> str:
    """The account's hash, as the second form of ack subjects has it."""
    digest = hashlib.sha256(place[1].encode()).digest()
    return "".join(_LETTERS[byte % 62] for byte in digest[:8])


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Finish the last scene before the transcript is compared."""
    result = yield
    if scenes := pyfuncitem.funcargs.get("scenes"):
        scenes[-1].finish()
    return result
