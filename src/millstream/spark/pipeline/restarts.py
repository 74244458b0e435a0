"""Which failures of a job pass by themselves, and how long to wait before it is started again.

A job that is started again goes on from its checkpoint, so this is safe at any moment.  A failure that has a
cause in the data, the file or the permissions is none of these: it would only come again.
"""

import re
from collections.abc import Iterator
from typing import Final

from millstream.spark.jobs.context import explain

PAUSES_S: Final = (1, 2, 5, 10, 20, 30, 30, 30)  # before each new start in a row without a batch in between
_DEEPEST: Final = 20  # causes of causes

_TOO_SLOW: Final = re.compile("Python worker failed to connect back")
_ENDED: Final = re.compile(r"Python worker exited unexpectedly|java\.io\.EOFException")
_UNANSWERED: Final = re.compile(r"millstream\.spark\.errors\.(?:SourceUnavailable|RangeNotFinished): ")
_OUR_ERROR: Final = re.compile(r"millstream\.[\w.]+\.[A-Z]\w*: ")


def passing_cause(error: BaseException, *, worked: bool) -> str:
    """Return why the job failed, in words, if it may succeed a moment later; otherwise nothing.

    `worked` says that the job has had a batch: only then does a server that does not answer count as one that
    will be back.
    """
    text = "\n".join(_texts(error))
    if _OUR_ERROR.search(text):
        return explain(error) if worked and _UNANSWERED.search(text) else ""
    if _TOO_SLOW.search(text):
        return "Python did not start within the ten seconds that Spark waits: this machine is busy"
    if _ENDED.search(text):
        return "a Python process of Spark ended unexpectedly"
    return ""


def _texts(error: BaseException) -> Iterator[str]:
    """Yield what an error and its causes say, in Python and in the JVM."""
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield str(found)
        yield str(getattr(found, "_stackTrace", "") or "")
        # Spark's errors keep the cause of the JVM in an attribute, beside Python's own.
        found = found.__cause__ or getattr(found, "_cause", None)
