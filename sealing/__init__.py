"""Secrets: encrypted columns, secrets that are kept under a name, references to them, and the rotation of the key.

encryption       seals and unseals a text with keys that are derived from SECRET_KEY
fields           columns that hold sealed texts
stored_secrets   secrets under a name: stored, replaced, read, deleted
references       how a stored secret is referred to, and by which tables
lookup           the secret that a reference names, wherever it is kept
key_rotation     what an earlier SECRET_KEY sealed, sealed with the present one
"""
