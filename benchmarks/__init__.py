"""Side-by-side benchmarks of Millrace and nats-server.  Start with ``README.md``."""
