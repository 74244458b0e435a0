"""The dashboard: a page of plain modules that calls `/v2` with the credentials of its user."""
