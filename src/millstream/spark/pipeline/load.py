"""Read a pipeline file: TOML to settings, with errors that name the file, the job and the key.

All unknown keys are reported at once, each with the key that was probably meant.  Not here: whether the
values make sense together (`check`).
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from millstream.base.documents import problem_of, unknown_key, unknown_keys
from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason
from millstream.base.suggestions import did_you_mean
from millstream.link.sections import secret_keys
from millstream.spark.jobs.settings import JOB_KINDS, Pipeline
from millstream.spark.pipeline.places import line_of

_POSITION: Final = re.compile(r"line (?P<line>\d+), column (?P<column>\d+)")
_JOB: Final = re.compile(r"^\$\.job\[(?P<index>\d+)\]\.?(?P<rest>.*)$")


class PipelineError(MillstreamError):
    """A pipeline file cannot be run; `problems` has one line for each reason."""

    def __init__(self, file: str, problems: Iterable[str], text: str = "") -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(self._told(problem, text) for problem in self.problems))

    def _told(self, problem: str, text: str) -> str:
        line = line_of(text, problem)
        return f"{self.file}: {problem}" if line is None else f"{self.file}:{line}: {problem}"


def load_pipeline(path: Path) -> Pipeline:
    """Read the file; raise `PipelineError` with every error in its keys and types."""
    file = str(path)
    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(file, error) from None
    return convert_pipeline(document, file, text)


def read_text(path: Path) -> str:
    """Return the text of the file; raise `PipelineError`."""
    file = str(path)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(file, [file_reason(error)]) from None
    except UnicodeDecodeError:
        raise PipelineError(file, ["not a text file in UTF-8"]) from None


def _not_toml(file: str, error: tomllib.TOMLDecodeError) -> PipelineError:
    said, _, place = str(error).rpartition(" (at ")
    found = _POSITION.match(place)
    if found is None:
        return PipelineError(file, [f"not TOML: {error}"])
    return PipelineError(f"{file}:{found['line']}:{found['column']}", [f"not TOML: {said}"])


def convert_pipeline(document: Mapping[str, Any], file: str, text: str = "") -> Pipeline:
    """Return the settings of a parsed TOML document; `text` is its source, for line numbers."""
    jobs = document.get("job")
    problems = [*_unknown_kinds(jobs), *unknown_keys(document, Pipeline, _unknown)]
    if not problems:
        try:
            return msgspec.convert(document, Pipeline)
        except msgspec.ValidationError as error:
            problems.append(problem_of(error))
    raise PipelineError(file, [_with_job_names(problem, jobs) for problem in problems], text)


def _unknown_kinds(jobs: Any) -> list[str]:
    problems: list[str] = []
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        kind = job.get("kind") if isinstance(job, dict) else None
        if isinstance(kind, str) and kind not in JOB_KINDS:
            hint = did_you_mean(kind, JOB_KINDS) or f"; known are {', '.join(JOB_KINDS)}"
            problems.append(f'$.job[{index}]: unknown kind "{kind}"{hint}')
    return problems


def _unknown(key: str, known: Mapping[str, object]) -> str:
    # Secrets do not belong into a file that is shown, copied and committed.
    instead = secret_keys().get(key)
    if instead is not None and "password_file" in known:
        return f'"{key}" may not be written into the file; use {instead}'
    return unknown_key(key, known)


def _with_job_names(problem: str, jobs: Any) -> str:
    """Replace `$.job[0].input` by `job "orders" input`, which the user finds in the file."""
    path, _, what = problem.partition(": ")
    found = _JOB.match(path)
    if found:
        job = jobs[int(found["index"])]
        name = job.get("name") if isinstance(job, dict) else None
        place = f'job "{name}"' if isinstance(name, str) else f"job number {int(found['index']) + 1}"
        rest = found["rest"].replace("[...]", "").replace(".", " ")
        return f"{place} {rest}: {what}" if rest else f"{place}: {what}"
    place = path.removeprefix("$").removeprefix(".")
    return f"[{place}] {what}" if place else what
