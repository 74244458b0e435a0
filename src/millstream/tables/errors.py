"""Errors between a table and its stream, each with the cause in its text.

    StreamAccessError
    ├── OptionError          an option is unknown, missing, or has an invalid value
    ├── SourceUnavailable    no server answered; a retry may help
    │   └── RangeNotFinished a range could not be read to its end in time; the task should be retried
    ├── NotAllowed           wrong credentials, or an account without the permission
    ├── StreamMissing        no stream of that name
    └── DataLoss             messages that should be read no longer exist

Spark passes an error to the user as text, so the text must be complete.  All errors can be pickled, because
they cross processes.
"""

from millstream.base.errors import MillstreamError


class StreamAccessError(MillstreamError):
    """Base class of the errors of reading and writing streams as tables."""


class OptionError(StreamAccessError):
    """An option is unknown, missing, or has an invalid value."""


class SourceUnavailable(StreamAccessError):
    """No server answered; a retry may help."""


class RangeNotFinished(SourceUnavailable):
    """A range could not be read to its end in time."""


class NotAllowed(StreamAccessError):
    """The credentials are wrong, or the account lacks the permission."""


class StreamMissing(StreamAccessError):
    """There is no stream of that name."""


class DataLoss(StreamAccessError):
    """Messages that should be read no longer exist."""
