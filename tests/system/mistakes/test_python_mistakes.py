"""Mistakes in programs are exceptions whose text says what to do."""

import pytest

from tests.kits.mistakes.page import pattern_of
from tests.kits.mistakes.python import PROGRAMS, Program
from tests.kits.mistakes.site import Site


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
async def test_a_mistake_is_an_exception_that_says_what_to_do(
    program: Program, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        await program.run(site)
    line = f"{caught.type.__name__}: {caught.value}"
    assert pattern_of(program.line).fullmatch(line), f"\nwanted: {program.line}\n   got: {line}"
    assert "wr0ng" not in line
    assert "Traceback" not in capfd.readouterr().err  # of nats-py
