"""Errors of jobs, each with the cause in its text.

JobError
├── TableError        the table is not what the job expects, or somebody else uses it
├── MissingFormat     Spark does not have the jars for a table format
└── Stopped           the job was asked to stop before it was done
"""

from millstream.spark.errors import SparkError


class JobError(SparkError):
    """Base class of the errors that jobs raise on purpose."""


class TableError(JobError):
    """The table is not what the job expects, or somebody else uses it."""


class MissingFormat(JobError):
    """Spark does not have the jars for a table format."""
