"""What can go wrong between Spark and a stream, each with the cause in its text.

    SparkError
    ├── OptionError          an option is unknown, missing, or has a value that means nothing
    ├── SchemaError          a column that this source does not have, or not with that type
    ├── CheckpointError      the offset that Spark kept is not one that this source wrote
    ├── SourceUnavailable    no server answered; trying again may help
    │   └── RangeNotFinished a range could not be read to its end in time; the task is to be tried again
    ├── NotAllowed           wrong credentials, or an account that may not do this
    ├── StreamMissing        no stream of that name
    ├── JavaMissing          Spark finds no Java that it can run on
    └── DataLoss             messages that were to be read are gone

Spark carries an error to the user as text, so the text has to say everything.  All can be pickled: an error
crosses processes here.
"""

from millstream.base.errors import MillstreamError


class SparkError(MillstreamError):
    """Root of what the data source raises on purpose."""


class OptionError(SparkError):
    """An option is unknown, missing, or has a value that means nothing."""


class SchemaError(SparkError):
    """The schema asks for a column that the source does not have, or for another type of it."""


class CheckpointError(SparkError):
    """The offset that Spark kept is not one that this source wrote."""


class SourceUnavailable(SparkError):
    """No server answered; trying again may help."""


class RangeNotFinished(SourceUnavailable):
    """A range could not be read to its end in time."""


class NotAllowed(SparkError):
    """Wrong credentials, or an account that may not do this."""


class StreamMissing(SparkError):
    """There is no stream of that name."""


class DataLoss(SparkError):
    """Messages that were to be read are gone."""


class JavaMissing(SparkError):
    """Spark finds no Java that it can run on."""
