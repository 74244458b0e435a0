"""The bounds of a log and the sums over its live messages, shared by the parts of a log."""


class LogState:
    """The bounds of a log, its durable part, and its size."""

    def __init__(self) -> None:
        self.first_seq = 1  # of the first live message; `last_seq` + 1 if there is none
        self.last_seq = 0
        self.last_timestamp = 0
        self.committed = 0  # last_seq as of the last commit
        self.messages = 0
        self.record_bytes = 0  # of live messages
        self.with_headers = 0  # live messages that have headers

    def start_at(self, seq: int) -> None:
        """Let the first message of an empty log have the sequence `seq`."""
        self.first_seq = seq
        self.last_seq = seq - 1

    def is_empty_now(self) -> None:
        """Record that no message is live."""
        self.messages = self.record_bytes = self.with_headers = 0
        self.first_seq = self.last_seq + 1
