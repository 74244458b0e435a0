"""Logins with tokens of an OpenID Connect issuer."""
