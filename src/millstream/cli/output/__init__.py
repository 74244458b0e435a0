"""The output of all commands: texts, tables, JSON, questions."""
