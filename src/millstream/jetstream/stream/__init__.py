"""One stream: its log and configuration, its commits, its API, and what removes its messages."""
