"""Connections, authentication, accounts, limits and routing to subscribers."""
