"""Errors and warnings about a configuration, with their location in the file.

A file is read to its end before an error is raised: `Notes` collects every error and warning, and
`Notes.check` raises one `ConfigError` that carries all of them.
"""

import msgspec

from millstream.base.errors import MillstreamError


class Location(msgspec.Struct, frozen=True):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ConfigError(MillstreamError):
    """The configuration cannot be used.  `problems` lists every error; a single error lists itself."""

    def __init__(
        self, reason: str, at: Location | None = None, problems: "tuple[ConfigError, ...]" = ()
    ) -> None:
        self.reason = reason
        self.at = at
        self.file = at.file if at else None
        self.line = at.line if at else None
        self.column = at.column if at else None
        self.problems = problems or (self,)
        super().__init__("\n".join(map(str, problems)) if problems else f"{at}: {reason}" if at else reason)


class AlreadyNoted(ConfigError):
    """A block is unusable because of errors that are already in `Notes`; this one adds none."""

    def __init__(self) -> None:
        super().__init__("the block has mistakes")
        self.problems = ()


class ConfigWarning(msgspec.Struct, frozen=True):
    """A setting that works but is probably a mistake.  A configuration check fails on it."""

    at: Location | None
    reason: str

    def __str__(self) -> str:
        return f"{self.at}: {self.reason}" if self.at else self.reason


class Notes(msgspec.Struct):
    """Collects the errors and warnings found while one configuration is read."""

    errors: list[ConfigError] = []
    warnings: list[ConfigWarning] = []

    def error(self, reason: str, at: Location | None = None) -> None:
        self.errors.append(ConfigError(reason, at))

    def warn(self, reason: str, at: Location | None = None) -> None:
        self.warnings.append(ConfigWarning(at, reason))

    def check(self) -> None:
        """Raise ConfigError if there are errors."""
        if not self.errors:
            return
        first = self.errors[0]
        if len(self.errors) == 1:
            raise first
        raise ConfigError(first.reason, first.at, tuple(self.errors))
