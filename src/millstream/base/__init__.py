"""The root of everything: errors, the clock, ids. Knows nothing of NATS."""
