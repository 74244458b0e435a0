"""Options of the JVMs that tests start: they live for seconds, and most of what they do is done once."""

from typing import Final

# Compiling again for speed costs more than it saves; checking Spark's classes takes a fifth of a start.
OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
