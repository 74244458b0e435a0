"""How commands show things: texts, tables, JSON, questions.  One layer for every command."""
