"""Django's PostgreSQL backend, with three additions for installations (`base`)."""
