"""Django's PostgreSQL backend, with what an installation needs besides (`base`)."""
