"""Read nats-server's configuration format and build the options of every other package."""

from millstream.config.errors import ConfigError, ConfigWarning, Location
from millstream.config.load import LoadedConfig, load, load_again, load_file, read_config
from millstream.config.options import (
    LogOptions,
    MonitorOptions,
    Overrides,
    ProcessOptions,
    ServerOptions,
)

__all__ = [
    "ConfigError",
    "ConfigWarning",
    "LoadedConfig",
    "Location",
    "LogOptions",
    "MonitorOptions",
    "Overrides",
    "ProcessOptions",
    "ServerOptions",
    "load",
    "load_again",
    "load_file",
    "read_config",
]
