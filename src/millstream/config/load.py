"""Entry points of this package: read a configuration file and the command line, return options."""

import os
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from millstream.config.assemble import assemble
from millstream.config.errors import ConfigWarning, Notes
from millstream.config.options import Overrides, ServerOptions
from millstream.config.settings import FoundSettings


class LoadedConfig(msgspec.Struct, frozen=True):
    options: ServerOptions
    warnings: tuple[ConfigWarning, ...] = ()


def read_config(
    path: str | os.PathLike[str] | None = None,
    overrides: Overrides | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Return the options from a file, if `path` is given, with the command line on top.

    Raises ConfigError.
    """
    overrides = overrides or Overrides()
    notes = Notes()
    if path is None:
        options = assemble(FoundSettings(), overrides, notes)
    else:
        # Imported here because many servers run without a file and start faster without the parser.
        from millstream.config.digest import config_digest
        from millstream.config.parser import parse_file
        from millstream.config.schema import read_settings

        root = parse_file(path, environment)
        if not root:
            notes.warn(f"{os.fspath(path)}: config has no values or is empty")
        settings = read_settings(root, notes)
        notes.check()  # report errors of single settings before errors that follow from them
        options = assemble(settings, overrides, notes)
        options = replace(options, config_file=os.fspath(path), config_digest=config_digest(root))
    notes.check()
    return LoadedConfig(options, tuple(notes.warnings))


def load_file(path: str | os.PathLike[str]) -> LoadedConfig:
    """Return the options from a file alone, with its warnings."""
    return read_config(path)


def load(path: str | os.PathLike[str] | None = None, overrides: Overrides | None = None) -> ServerOptions:
    """Return the options that a server starts with."""
    return read_config(path, overrides).options


def load_again(options: ServerOptions) -> LoadedConfig:
    """Read the file of these options again, with the same command line on top."""
    return read_config(options.config_file or None, options.overrides)
