"""Errors of Spark's own side; those of reading and writing a stream are in `tables.errors`.

    StreamAccessError
    └── SparkError
        ├── SchemaError      a column that this source does not have, or not with that type
        ├── BadValue         a payload does not have the form that `valueFormat` says
        ├── CheckpointError  the offset in Spark's checkpoint was not written by this source
        └── JavaMissing      Spark finds no Java that it can run on

Spark passes an error to the user as text, so the text must be complete.  All errors can be pickled, because
they cross processes.
"""

from millstream.tables.errors import StreamAccessError


class SparkError(StreamAccessError):
    """Base class of the errors that only Spark's side of the data source raises."""


class SchemaError(SparkError):
    """The schema names a column that the source does not have, or has with another type."""


class BadValue(SparkError):
    """A payload does not have the form that `valueFormat` says."""


class CheckpointError(SparkError):
    """The offset in Spark's checkpoint was not written by this source."""


class JavaMissing(SparkError):
    """Spark finds no Java that it can run on."""
