"""The root of everything: errors, the clock, ids. Imports the standard library only."""
