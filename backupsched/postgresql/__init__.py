"""Django's PostgreSQL backend, with two additions for installations (`base`)."""
