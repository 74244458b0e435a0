"""Mirrors and sources in `/jsz`."""

import json
from collections.abc import Callable

from tests.kits.conformance.clients import ServerFactory, monitor
from tests.kits.conformance.sourcing import Scene


def test_inflows_and_their_consumers_are_shown(
    own_server: ServerFactory, open_scene: Callable[..., Scene]
) -> None:
    server = own_server(config="jetstream: {max_mem: 1GB, max_file: 1GB}", jetstream=True, monitor=True)
    js = open_scene(server)
    js.stream("O", subjects=["o.>"])
    js.publish("o.1", "one")
    js.stream("M", mirror={"name": "O"})
    js.stream("S", sources=[{"name": "O", "filter_subject": "o.1"}, {"name": "NONE"}])
    js.until_error("S")
    js.until("M", messages=1)
    js.until("S", messages=1)
    (account,) = monitor(server, "/jsz?consumers=1&direct-consumers=1")["account_details"]
    for stream in sorted(account["stream_detail"], key=lambda each: each["name"]):
        shown = {key: value for key, value in stream.items() if key in ("mirror", "sources")}
        if "sources" in shown:
            shown["sources"].sort(key=lambda each: each["name"])
        names = sorted(each["name"] for each in stream.get("direct_consumer_detail", []))
        js.note(f"{stream['name']} {list(stream)} {json.dumps(shown)} {' '.join(names)}")
