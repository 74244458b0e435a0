"""Read a pipeline file: TOML to settings, with errors that name the file, the job and the key.

All unknown keys are found in one go, each with the key that was probably meant.
Not here: whether the values make sense together (`check`).
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from millstream.base.errors import MillstreamError
from millstream.spark.jobs.settings import JOB_KINDS, Pipeline

_AT: Final = re.compile(r"^(?P<what>.*) - at `(?P<path>\$[^`]*)`$", re.DOTALL)
_MISSING: Final = re.compile(r"^Object missing required field `(?P<key>[^`]*)`$")
_JOB: Final = re.compile(r"^\$\.job\[(?P<index>\d+)\]\.?(?P<rest>.*)$")
# Secrets do not belong into a file that is shown, copied and committed.
_SECRET_KEYS: Final = {
    "password": "password_file or password_env",
    "token": "token_file or token_env",
    "nkey": "nkey_file",
}


class PipelineError(MillstreamError):
    """A pipeline file cannot be run; `problems` has one line for each reason."""

    def __init__(self, file: str, problems: Iterable[str]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}: {problem}" for problem in self.problems))


def load_pipeline(path: Path) -> Pipeline:
    """Read the file; raises `PipelineError` with everything that is wrong with its keys and types."""
    file = str(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PipelineError(file, [error.strerror or str(error)]) from None
    except UnicodeDecodeError:
        raise PipelineError(file, ["not a text file in UTF-8"]) from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(file, [f"not TOML: {error}"]) from None
    return convert_pipeline(document, file)


def convert_pipeline(document: Mapping[str, Any], file: str) -> Pipeline:
    """The settings of a TOML document that is parsed already."""
    jobs = document.get("job")
    problems = [*_unknown_kinds(jobs), *_unknown_keys(document, inspect.type_info(Pipeline), "$")]
    if not problems:
        try:
            return msgspec.convert(document, Pipeline)
        except msgspec.ValidationError as error:
            problems.append(_explain(str(error)))
    raise PipelineError(file, [_with_job_names(problem, jobs) for problem in problems])


def _unknown_kinds(jobs: Any) -> list[str]:
    problems: list[str] = []
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        kind = job.get("kind") if isinstance(job, dict) else None
        if isinstance(kind, str) and kind not in JOB_KINDS:
            hint = _did_you_mean(kind, JOB_KINDS) or f"; known are {', '.join(JOB_KINDS)}"
            problems.append(f'$.job[{index}]: unknown kind "{kind}"{hint}')
    return problems


def _unknown_keys(value: Any, expected: inspect.Type, path: str) -> list[str]:
    """Every key in the document that no class declares."""
    match expected:
        case inspect.Metadata(type=inner):
            return _unknown_keys(value, inner, path)
        case inspect.UnionType(types=types):
            return [
                problem
                for one in types
                if isinstance(one, inspect.StructType) and _is_meant(value, one)
                for problem in _unknown_keys(value, one, path)
            ]
        case inspect.ListType(item_type=item) if isinstance(value, list):
            return [p for i, one in enumerate(value) for p in _unknown_keys(one, item, f"{path}[{i}]")]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return [p for key, one in value.items() for p in _unknown_keys(one, item, f"{path}.{key}")]
        case inspect.StructType(fields=fields, tag_field=tag_field) if isinstance(value, dict):
            known = {field.encode_name: field.type for field in fields}
            problems: list[str] = []
            for key, one in value.items():
                if key in known:
                    problems += _unknown_keys(one, known[key], f"{path}.{key}")
                elif key != tag_field:
                    problems.append(f"{path}: {_unknown(key, known)}")
            return problems
    return []


def _is_meant(value: Any, struct: inspect.StructType) -> bool:
    if struct.tag_field is None:
        return True
    return isinstance(value, dict) and value.get(struct.tag_field) == struct.tag


def _unknown(key: str, known: Mapping[str, object]) -> str:
    instead = _SECRET_KEYS.get(key)
    if instead is not None and "password_file" in known:
        return f'"{key}" may not be written into the file; use {instead}'
    return f'unknown key "{key}"{_did_you_mean(key, known)}'


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def _explain(error: str) -> str:
    """msgspec's text as `path: what`, without words of Python's."""
    found = _AT.match(error)
    what, path = (found["what"], found["path"]) if found else (error, "$")
    missing = _MISSING.match(what)
    if missing:
        return f'{path}: key "{missing["key"]}" is missing'
    head, _, key = path.rpartition(".")
    what = what[:1].lower() + what[1:].replace("`", "")
    return f'{head}: key "{key}": {what}' if head else f"{path}: {what}"


def _with_job_names(problem: str, jobs: Any) -> str:
    """`$.job[0].input` as `job "orders" input`: a place that one finds in the file."""
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
