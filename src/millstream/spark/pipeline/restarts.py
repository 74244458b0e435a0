"""Decide which failures of a job are temporary, and how long to wait before a restart.

A restarted job continues from its checkpoint, so a restart is safe at any moment.  Failures caused by the
data, the file or permissions are not temporary: they would occur again.
"""

import re
from collections.abc import Iterator
from typing import Final

from millstream.spark.jobs.context import explain

PAUSES_S: Final = (1, 2, 5, 10, 20, 30, 30, 30)  # before each restart in a row without a batch in between
_DEEPEST: Final = 20  # length of a chain of causes

_TOO_SLOW: Final = re.compile("Python worker failed to connect back")
_ENDED: Final = re.compile(r"Python worker exited unexpectedly|java\.io\.EOFException")
_UNANSWERED: Final = re.compile(
    r"millstream\.(?:tables\.errors\.(?:SourceUnavailable|RangeNotFinished)|lake\.errors\.LakeUnavailable): "
)
_OUR_ERROR: Final = re.compile(r"millstream\.[\w.]+\.[A-Z]\w*: ")


def passing_cause(error: BaseException, *, worked: bool) -> str:
    """Return why the job failed if the failure is temporary; otherwise an empty string.

    `worked`: the job has completed a batch.  Only then is a server that does not answer considered temporary.
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
    """Yield the messages of an error and its causes, in Python and in the JVM."""
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield str(found)
        yield str(getattr(found, "_stackTrace", "") or "")
        # Spark's errors keep the JVM's cause in an attribute, beside Python's own.
        found = found.__cause__ or getattr(found, "_cause", None)
