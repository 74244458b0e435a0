"""From a configuration file and the command line to options: the door of this package."""

import os
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from millstream.config.assemble import assemble
from millstream.config.errors import ConfigWarning, Notes
from millstream.config.options import Overrides, ServerOptions
from millstream.config.settings import Settings


class LoadedConfig(msgspec.Struct, frozen=True):
    options: ServerOptions
    warnings: tuple[ConfigWarning, ...] = ()


def read_config(
    path: str | os.PathLike[str] | None = None,
    overrides: Overrides | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Options from a file, if there is one, with the command line on top; raises ConfigError."""
    overrides = overrides or Overrides()
    notes = Notes()
    if path is None:
        options = assemble(Settings(), overrides, notes)
    else:
        # Here, because many servers have no file and start without a parser.
        from millstream.config.digest import config_digest
        from millstream.config.parser import parse_file
        from millstream.config.schema import read_settings

        root = parse_file(path, environment)
        if not root:
            notes.warn(f"{os.fspath(path)}: config has no values or is empty")
        settings = read_settings(root, notes)
        notes.check()  # first the mistakes themselves, not what follows from them
        options = assemble(settings, overrides, notes)
        options = replace(options, config_file=os.fspath(path), config_digest=config_digest(root))
    notes.check()
    return LoadedConfig(options, tuple(notes.warnings))


def load_file(path: str | os.PathLike[str]) -> LoadedConfig:
    """Options from a file alone, with what was odd about it."""
    return read_config(path)


def load(path: str | os.PathLike[str] | None = None, overrides: Overrides | None = None) -> ServerOptions:
    """The options a server starts with."""
    return read_config(path, overrides).options


def load_again(options: ServerOptions) -> LoadedConfig:
    """Read once more the file these options came from, with the same command line on top."""
    return read_config(options.config_file or None, options.overrides)
