"""Options of the server process as a whole, as frozen values.

Each package declares its own options; this module adds those of the process and joins all of them.
Durations are seconds, sizes are bytes.
"""

import msgspec

from millstream.arrow.options import ArrowOptions
from millstream.broker.options import BrokerOptions, TlsOptions
from millstream.jetstream.options import JetStreamOptions
from millstream.otel.options import OtelOptions


class MonitorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP endpoints.  At most one of the two ports is set; -1 picks a free port."""

    host: str = "0.0.0.0"
    http_port: int | None = None  # None: off
    https_port: int | None = None  # None: off
    base_path: str = "/"
    tls: TlsOptions | None = None  # for `https_port`

    @property
    def enabled(self) -> bool:
        return self.http_port is not None or self.https_port is not None


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    file: str = ""  # empty: standard error
    size_limit: int = 0  # bytes at which the log file is rotated; 0: never
    max_files: int = 0  # files to keep, the current one included; 0: all
    time: bool = True
    utc: bool = False
    debug: bool = False
    trace: bool = False  # always equal to `BrokerOptions.trace`
    json: bool = False


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    pid_file: str = ""
    ports_file_dir: str = ""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Values set on the command line; None leaves the choice to the file or the default."""

    host: str | None = None
    port: int | None = None
    server_name: str | None = None
    client_advertise: str | None = None
    http_port: int | None = None
    https_port: int | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None
    debug: bool | None = None
    trace: bool | None = None
    trace_verbose: bool | None = None
    max_traced_message: int | None = None
    log_file: str | None = None
    log_size_limit: int | None = None
    log_time: bool | None = None
    log_utc: bool | None = None
    log_json: bool | None = None
    pid_file: str | None = None
    ports_file_dir: str | None = None
    jetstream: bool | None = None
    store_dir: str | None = None
    arrow_port: int | None = None  # 0 switches the endpoint off
    tls: bool | None = None  # False switches the file's TLS off
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    tls_verify: bool | None = None


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    broker: BrokerOptions = msgspec.field(default_factory=BrokerOptions)
    jetstream: JetStreamOptions = msgspec.field(default_factory=JetStreamOptions)
    monitor: MonitorOptions = MonitorOptions()
    arrow: ArrowOptions = msgspec.field(default_factory=ArrowOptions)
    otel: OtelOptions | None = None  # None: nothing is sent
    log: LogOptions = LogOptions()
    process: ProcessOptions = ProcessOptions()
    config_file: str = ""
    config_digest: str = ""  # `sha256:…` of the parsed file
    overrides: Overrides = Overrides()  # kept so that a reload can apply them again
