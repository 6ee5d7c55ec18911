"""Secrets: encrypted columns, secrets that are kept under a name, references to them, and the rotation of the key.

encryption       seals and unseals a text with keys that are derived from SECRET_KEY
fields           columns that hold sealed texts
stored_secrets   secrets under a name: stored, replaced, read, deleted
references       the form of a reference to a stored secret, and the tables that have them
lookup           the secret that a reference names, wherever it is kept
key_rotation     secrets sealed by an earlier SECRET_KEY, sealed again with the present one
"""
