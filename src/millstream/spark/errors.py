"""Errors between Spark and a stream, each with the cause in its text.

    SparkError
    ├── OptionError          an option is unknown, missing, or has an invalid value
    ├── SchemaError          a column that this source does not have, or not with that type
    ├── CheckpointError      the offset in Spark's checkpoint was not written by this source
    ├── SourceUnavailable    no server answered; a retry may help
    │   └── RangeNotFinished a range could not be read to its end in time; the task should be retried
    ├── NotAllowed           wrong credentials, or an account without the permission
    ├── StreamMissing        no stream of that name
    ├── JavaMissing          Spark finds no Java that it can run on
    └── DataLoss             messages that should be read no longer exist

Spark passes an error to the user as text, so the text must be complete.  All errors can be pickled, because
they cross processes.
"""

from millstream.base.errors import MillstreamError


class SparkError(MillstreamError):
    """Base class of the errors that the data source raises on purpose."""


class OptionError(SparkError):
    """An option is unknown, missing, or has an invalid value."""


class SchemaError(SparkError):
    """The schema names a column that the source does not have, or has with another type."""


class CheckpointError(SparkError):
    """The offset in Spark's checkpoint was not written by this source."""


class SourceUnavailable(SparkError):
    """No server answered; a retry may help."""


class RangeNotFinished(SourceUnavailable):
    """A range could not be read to its end in time."""


class NotAllowed(SparkError):
    """The credentials are wrong, or the account lacks the permission."""


class StreamMissing(SparkError):
    """Raised if there is no stream of that name."""


class DataLoss(SparkError):
    """Messages that should be read no longer exist."""


class JavaMissing(SparkError):
    """Spark finds no Java that it can run on."""
