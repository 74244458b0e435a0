"""Help for tests, ours and our users': servers to start, transports to fake, lines to cut."""
