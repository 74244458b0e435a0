"""The page about consumers shows the table that the code follows."""

from millstream.jetstream.consumers.message_states import MOVES, MessageEvent, MessageState
from tests.kits.paths import DOCS

PAGE = DOCS / "consumers.md"


def row(state: MessageState) -> str:
    cells = [MOVES[state, event].value if (state, event) in MOVES else "" for event in MessageEvent]
    return f"| **{state.value}** | {' | '.join(cells)} |"


def test_the_table_is_the_one_of_the_code() -> None:
    lines = PAGE.read_text().splitlines()
    head = f"| | {' | '.join(event.value for event in MessageEvent)} |"
    start = lines.index(head)
    assert lines[start + 2 : start + 2 + len(MessageState)] == [row(state) for state in MessageState]
