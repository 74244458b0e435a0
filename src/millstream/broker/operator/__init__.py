"""Operator mode: accounts and users that signed tokens describe, instead of the configuration."""
