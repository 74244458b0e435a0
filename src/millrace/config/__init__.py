"""Files, environment and flags, turned once into the options each package declares."""
