"""The file that takes what Spark prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from millstream.base.errors import MillstreamError
from millstream.spark.pipeline.spark_log import SparkLog

NOISY = "import sys; print('out'); print('err', file=sys.stderr)"


def test_what_processes_print_goes_to_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spark.log"
    with SparkLog(path) as log:
        with log.taking_output():
            subprocess.run([sys.executable, "-c", NOISY], check=True, timeout=60)
        print("ours")
    assert sorted(path.read_text().split()) == ["err", "out"]
    assert capfd.readouterr() == ("ours\n", "")


@pytest.mark.parametrize(
    ("error", "is_wanted", "stays"),
    [
        (None, False, False),
        (None, True, True),
        (MillstreamError("said it all"), False, False),
        (RuntimeError("nobody knows"), False, True),
    ],
)
def test_a_file_that_nobody_named_stays_if_somebody_has_to_look_at_it(
    error: Exception | None, is_wanted: bool, stays: bool
) -> None:
    log = SparkLog()
    try:
        with log:
            log.is_wanted = is_wanted
            if error is not None:
                raise error
    except (MillstreamError, RuntimeError):
        assert error is not None
    assert log.path.exists() is stays
    log.path.unlink(missing_ok=True)


def test_the_last_words_are_no_part_of_a_stack(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with SparkLog(path) as log:
        assert log.last_words() == "nothing was printed"
        path.write_text("WARN x\nException: no such master\n\tat a.b.C.d(E.scala:1)\n\t... 3 more\n\n")
        assert log.last_words() == "Exception: no such master"


def test_a_folder_is_no_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(MillstreamError, match="Is a directory; give the path of a file"):
        SparkLog(tmp_path)
