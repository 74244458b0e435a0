"""`docs/metrics.md` has every metric of a server and of a gateway; GOLDEN_UPDATE=1 writes them."""

import re
import urllib.request
from collections.abc import Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from millstream.gateway.metrics import Metrics
from millstream.otel.options import OtelOptions
from millstream.otel.sender import Sender
from tests.kits.docs.generated import compare, item
from tests.kits.paths import DOCS
from tests.kits.reference import ServerKind, ServerProcess

PAGE = DOCS / "metrics.md"


def described(text: str) -> Iterator[str]:
    """Yield an entry for each metric of an exposition, in its order."""
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    for name, meaning in re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE):
        yield item([name], f"{kinds[name]}. {meaning.rstrip('.')}.")


def test_every_metric_of_a_server_is_on_the_page() -> None:
    with (
        ServerProcess(ServerKind.MILLSTREAM, jetstream=True, monitor=True) as server,
        urllib.request.urlopen(f"{server.monitor_url}/metrics") as answer,
    ):
        compare(PAGE, "metrics of a server", described(answer.read().decode()))


def test_every_metric_about_opentelemetry_is_on_the_page() -> None:
    class Described(Collector):
        def collect(self) -> Iterable[Metric]:
            return Sender(OtelOptions(), {}, unused).described()

    async def unused() -> bytes:
        return b""

    compare(PAGE, "metrics about OpenTelemetry", described(generate_latest(Described()).decode()))


def test_every_metric_of_a_gateway_is_on_the_page() -> None:
    compare(PAGE, "metrics of a gateway", described(Metrics().text().decode()))
