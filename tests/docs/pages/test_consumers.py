"""The page about consumers shows the table that the code follows."""

from millstream.jetstream.consumers.message_states import MOVES, Event, State
from tests.kits.paths import DOCS

PAGE = DOCS / "consumers.md"


def row(state: State) -> str:
    cells = [MOVES[state, event].value if (state, event) in MOVES else "" for event in Event]
    return f"| **{state.value}** | {' | '.join(cells)} |"


def test_the_table_is_the_one_of_the_code() -> None:
    lines = PAGE.read_text().splitlines()
    head = f"| | {' | '.join(event.value for event in Event)} |"
    start = lines.index(head)
    assert lines[start + 2 : start + 2 + len(State)] == [row(state) for state in State]
