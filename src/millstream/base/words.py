"""Words for numbers in messages to people."""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 message`, `2,000 messages`; `many` defaults to `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
