"""Origins of another account or domain, reached through imports and API prefixes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.sourcing import Scene

_ACCOUNTS = """
jetstream: {max_mem: 1G, max_file: 1G%s}
accounts: {
  HOME: {
    jetstream: enabled, users: [{user: home, password: p}]
    exports: [
      {service: "$JS.API.CONSUMER.>"}, {service: "$JS.FC.>"}, {stream: "deliver.away.>"}
    ]
  }
  AWAY: {
    jetstream: enabled, users: [{user: away, password: p}]
    imports: [
      {service: {account: HOME, subject: "$JS.API.CONSUMER.>"}, to: "home.api.CONSUMER.>"}
      {service: {account: HOME, subject: "$JS.FC.>"}}
      {stream: {account: HOME, subject: "deliver.away.>"}}
    ]
  }
}
"""
_EXTERNAL = {"api": "home.api", "deliver": "deliver.away"}


@pytest.fixture
def scenes(shared_server: ServerFactory, open_scene: Callable[..., Scene]) -> tuple[Scene, Scene]:
    """The account that has the origin, and the one that wants it; one server serves all tests here."""
    server = shared_server(config=_ACCOUNTS % "", jetstream=True)
    return open_scene(server, "home"), open_scene(server, "away")


@pytest.mark.parametrize("how", ["mirror", "sources"])
def test_a_stream_of_another_account(scenes: tuple[Scene, Scene], how: str) -> None:
    home, away = scenes
    name = f"O{how}"
    home.stream(name, subjects=[f"{how}.>"])
    home.publish(f"{how}.1", "one", "two")
    origin: Any = {"name": name, "external": _EXTERNAL}
    away.stream(f"S{how}", **{how: origin if how == "mirror" else [origin]})
    away.until(f"S{how}", messages=2)
    home.publish(f"{how}.2", "three", headers="Some: header")
    away.until(f"S{how}", messages=3)
    away.contents(f"S{how}")
    home.note(f"consumers: {home.ask(f'CONSUMER.NAMES.{name}')['consumers']}")


def test_more_than_fits_into_a_window(scenes: tuple[Scene, Scene]) -> None:
    """Flow control crosses the border, too: without its answers the consumer would stop."""
    home, away = scenes
    home.ask("STREAM.CREATE.BIG", {"name": "BIG", "subjects": ["big"]})
    for _ in range(80):
        home.request("big", b"x" * 500_000)
    away.stream("COPY", mirror={"name": "BIG", "external": _EXTERNAL})
    away.until("COPY", patience_s=30, messages=80)


def test_a_filter_of_another_account(scenes: tuple[Scene, Scene]) -> None:
    home, away = scenes
    home.stream("F", subjects=["f.>"])
    for subject in ("f.1", "f.2", "f.1"):
        home.publish(subject, subject)
    away.stream("G", sources=[{"name": "F", "filter_subject": "f.1", "external": _EXTERNAL}])
    away.until("G", messages=2)
    away.contents("G")


def test_a_domain_that_is_not_there(shared_server: ServerFactory, open_scene: Callable[..., Scene]) -> None:
    js = open_scene(shared_server(config=_ACCOUNTS % ", domain: hub", jetstream=True), "away")
    js.stream("M", mirror={"name": "O", "external": {"api": "$JS.other.API"}})
    js.look("M")
    js.api("STREAM.CREATE.N", {"name": "N", "mirror": {"name": "O", "external": {"api": "$JS.API"}}})
