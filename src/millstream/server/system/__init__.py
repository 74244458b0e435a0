"""The system account: events, and requests for documents and commands."""
