"""Side-by-side benchmarks of Millstream and nats-server.  Start with ``README.md``."""
