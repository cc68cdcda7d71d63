"""Where keyed state lives: one module a backend."""
