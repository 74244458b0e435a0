"""Exit codes and messages of commands that end early."""

import tomllib
from itertools import pairwise

import pytest

from millstream.base.errors import MillstreamError
from millstream.cli import gateway, pipeline
from millstream.cli.app import run
from millstream.cli.endings import MissingExtra, UsageError, ended, need
from tests.kits.paths import ROOT

_MODULES = {"pyyaml": "yaml"}  # where the module has another name than the package


def raising(error: BaseException) -> int:
    def command() -> int:
        raise error

    return ended(command)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (MillstreamError("one\ntwo \x1b[31m"), 1, "millstream: one\nmillstream: two \\x1b[31m\n"),
        (UsageError("give one"), 2, "millstream: give one\n"),
        (
            OSError(28, "No space left", "/disk/x"),
            1,
            "millstream: /disk/x: No space left on device; free some space\n",
        ),
        (KeyboardInterrupt(), 130, "millstream: interrupted\n"),
    ],
)
def test_what_a_command_raises_is_told_and_is_its_exit_code(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == code
    assert capsys.readouterr() == ("", told)


def test_a_command_that_ends_well_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(lambda: None) == 0
    assert ended(lambda: 3) == 3
    assert capsys.readouterr() == ("", "")


def test_an_error_that_nobody_foresaw_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())


def test_without_arguments_there_is_help_and_the_code_of_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 2
    assert "Usage: millstream" in "".join(capsys.readouterr())


def test_packages_that_are_missing_are_named_with_their_extra() -> None:
    need("gateway", "json", "os")
    with pytest.raises(
        MissingExtra, match=r"^nosuch_a and nosuch_b are not installed; .*'millstream\[gateway\]'"
    ):
        need("gateway", "nosuch_a", "json", "nosuch_b")


def test_the_packages_are_those_of_the_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name, packages in (("gateway", gateway.PACKAGES), ("spark", pipeline.PACKAGES)):
        wanted = project["project"]["optional-dependencies"][name]
        names = [each.split(">")[0].split("[")[0] for each in wanted]
        assert sorted(packages) == sorted(_MODULES.get(each, each) for each in names)


@pytest.mark.parametrize(
    "command", [[], ["backup"], ["restore"], ["promote"], ["gateway"], ["pipeline"], ["pipeline", "run"]]
)
def test_help_wraps_once_and_shows_no_types_of_flags(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "<bool>" not in text
    assert max(map(len, text.splitlines())) <= 80
    prose = text.partition("Arguments:")[0].partition("Options:")[0]
    for paragraph in prose.split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines() if not line.startswith("Usage")]
        for line, following in pairwise(lines):
            assert len(line) + 1 + len(following.split()[0]) > 70, f"{line!r} was cut short"
