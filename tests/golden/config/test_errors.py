"""Every kind of mistake, with the message a user reads.  Rewrite the golden files with GOLDEN_UPDATE=1."""

import os
from pathlib import Path

import pytest

from millstream.config import ConfigError, load_file

GOLDEN = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.conf")))
def test_mistakes_are_told_with_file_line_column_and_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(ConfigError) as caught:
        load_file(f"{name}.conf")
    expected = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN_UPDATE") == "1":
        expected.write_text(f"{caught.value}\n")
    assert f"{caught.value}\n" == expected.read_text()
    assert all(problem.at is not None for problem in caught.value.problems)
