"""Options of OpenTelemetry: in both configurations, and what the environment adds."""

from pathlib import Path

import pytest

from millstream.config import ConfigError
from millstream.config.load import load
from millstream.config.reload import plan_reload
from millstream.gateway.config_file import ConfigFileError, load_settings
from millstream.otel import options as otel_options
from millstream.otel.options import OtelOptions, with_environment


def server(folder: Path, text: str) -> OtelOptions | None:
    path = folder / "server.conf"
    path.write_text(f"millstream {{ {text} }}")
    return load(path).otel


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("otel: false", None),
        ("otel: true", OtelOptions()),
        ("otel { }", OtelOptions()),
        ('otel { endpoint: "http://c:4318" }', OtelOptions(endpoint="http://c:4318")),
        ('otel { url: "https://c", traces: false }', OtelOptions(endpoint="https://c", traces=False)),
        ("otel { sampling: 0.25, interval: 10s }", OtelOptions(sampling=0.25, interval_s=10)),
        ('otel { sampling: "5%", timeout: 2s }', OtelOptions(sampling=0.05, timeout_s=2)),
        ('otel { headers { "api-key": "x" }, queue: 10 }', OtelOptions(headers={"api-key": "x"}, queue=10)),
    ],
)
def test_of_a_server(tmp_path: Path, text: str, expected: OtelOptions | None) -> None:
    assert server(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("otel: 7", "expected true or false"),
        ("otel { endpont: 1 }", 'unknown field "endpont"'),
        ("otel { endpoint: localhost }", "is no address"),
        ("otel { sampling: 2 }", "a share from 0 to 1"),
        ("otel { sampling: many }", "expected a share"),
        ("otel { interval: 10ms }", "at most once a second"),
        ("otel { timeout: 2h }", "up to a minute"),
        ("otel { queue: 0 }", "1 to 1,000,000"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        server(tmp_path, text)


def test_headers_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        server(tmp_path, "otel { headers { key: 4711 } }")
    assert "4711" not in str(caught.value)
    path = tmp_path / "server.conf"
    path.write_text('millstream { otel { headers { key: "hunter2" } } }')
    with pytest.raises(ConfigError, match="not supported for otel") as caught:
        plan_reload(load(), load(path))
    assert "hunter2" not in str(caught.value)


def test_of_a_gateway(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("gateway: {otel: {endpoint: 'http://c:4318', sampling: 0.1}}")
    assert load_settings(path).otel == OtelOptions(endpoint="http://c:4318", sampling=0.1)
    path.write_text("gateway: {otel: true}")
    assert load_settings(path).otel == OtelOptions()
    path.write_text("gateway: {otel: {sampling: 3}}")
    with pytest.raises(ConfigFileError, match="a share from 0 to 1"):
        load_settings(path)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_options.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'millstream\[otel\]'"):
        server(tmp_path, "otel: true")
    path = tmp_path / "gateway.yaml"
    path.write_text("gateway: {otel: true}")
    with pytest.raises(ConfigFileError, match=r"pip install 'millstream\[otel\]'"):
        load_settings(path)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, OtelOptions(interval_s=60)),
        ({"OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_TRACES_EXPORTER": "none"}, OtelOptions(interval_s=60, traces=False)),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, None),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "5000"}, OtelOptions(interval_s=5)),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "soon"}, OtelOptions(interval_s=60)),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, OtelOptions(interval_s=60, sampling=0)),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, OtelOptions(interval_s=60, sampling=1)),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
            OtelOptions(interval_s=60, sampling=0.1),
        ),
    ],
)
def test_the_environment(variables: dict[str, str], expected: OtelOptions | None) -> None:
    assert with_environment(OtelOptions(), variables) == expected


def test_a_configuration_is_stronger_than_the_environment() -> None:
    chosen = OtelOptions(sampling=0.5, interval_s=7)
    variables = {"OTEL_TRACES_SAMPLER": "always_off", "OTEL_METRIC_EXPORT_INTERVAL": "5000"}
    assert with_environment(chosen, variables) == chosen
