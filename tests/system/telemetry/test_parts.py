"""The parts of `examples.telemetry` that need no Spark."""

import asyncio
import json
from pathlib import Path

import millstream
from examples.telemetry.devices import DEVICES, publish
from examples.telemetry.plot import bars, plot


def test_devices_publish_readings_and_have_names(tmp_path: Path) -> None:
    with millstream.BlockingServer(store_dir=tmp_path) as server:
        asyncio.run(publish(server.client_url, 3))
        query = "select subject, count(*) from TELEMETRY group by 1 order by 1"
        assert millstream.sql(query, server=server.client_url).fetchall() == [
            (f"telemetry.{device}", 3) for device in DEVICES
        ]
        names = millstream.sql("select key, value from kv.devices", server=server.client_url).fetchall()
    assert {key: json.loads(value) for key, value in names} == DEVICES


def test_the_plot_has_a_line_for_each_series() -> None:
    assert bars([0.0, 3.5, 7.0]) == "▁▅█"
    assert bars([1.0]) == "▁"
    rows = [("cellar", 1.0), ("kitchen", -2.0), ("cellar", 2.0)]
    assert plot(rows) == ["cellar       1.0 °C ▁█ 2.0 °C", "kitchen     -2.0 °C ▁ -2.0 °C"]
    assert plot([]) == []
