"""Django's PostgreSQL backend, for the embedded server: it starts the server when it does not answer."""
