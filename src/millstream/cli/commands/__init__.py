"""The commands that talk to a NATS server, one module for each noun."""
