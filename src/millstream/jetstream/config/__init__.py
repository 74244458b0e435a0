"""The rules for configurations of streams: what a request means, what it may change, why it is refused."""
