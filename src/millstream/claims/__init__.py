"""JWTs of operators, accounts and users: reading, checking, and what they allow; no server, no files."""
