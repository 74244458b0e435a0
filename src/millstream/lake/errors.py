"""Errors of Iceberg tables, each one sentence with the cause.

LakeError
├── LakeUnavailable   the catalog does not answer; a retry may help
├── TableRefused      the table is not what the caller expects, or somebody else writes it
│   └── TableMissing  there is no such table or namespace
└── LakeMissing       PyIceberg is not installed, or a part of it
"""

from millstream.base.errors import MillstreamError


class LakeError(MillstreamError):
    """Base class of the errors about Iceberg tables."""


class LakeUnavailable(LakeError):
    """The catalog does not answer; a retry may help."""


class TableRefused(LakeError):
    """The table is not what the caller expects, or somebody else writes it."""


class TableMissing(TableRefused):
    """There is no such table or namespace."""


class LakeMissing(LakeError):
    """PyIceberg is not installed, or a part of it that the catalog needs."""
