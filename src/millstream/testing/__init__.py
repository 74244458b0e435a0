"""The pytest plugin: fixtures that start servers in the tests of programs that use NATS."""
