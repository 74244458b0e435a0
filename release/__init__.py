"""Builds what is published, and checks it as a user would install it."""
