"""The composition root: settings, URLs, the embedded database. Nothing imports it but Django."""
