"""Text as Go writes it: times, durations, quoted strings, and JSON with its error messages."""
