"""The way of a message into a stream: fast path, rules and limits, batches, and what headers ask for."""
