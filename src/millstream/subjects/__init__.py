"""Subjects: tokens, matching, the tree of subscriptions, and rewriting."""
