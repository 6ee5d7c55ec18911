"""Secrets at rest: sealed with keys derived from Django's SECRET_KEY, so that a dump of the database alone reveals no
secret.

SECRET_KEY seals. Text sealed by an older key can be read as long as that key is in SECRET_KEY_FALLBACKS, and is sealed
again by `sealing/key_rotation.py`. The cipher is Fernet (AES-128-CBC with HMAC-SHA256), the derivation HKDF-SHA256 (RFC
5869).
"""

from base64 import urlsafe_b64encode
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

PURPOSE = b"backupsched sealed field, version 1"
"""Keeps this key apart from whatever else is derived from SECRET_KEY. A different text makes everything unreadable."""

KEY_BYTES = 32


class Unsealable(Exception):
    """A sealed secret cannot be read here; the message contains advice."""


def seal(text: str) -> str:
    """Encrypt `text`. Sealing it twice gives two texts. Returns ASCII; of an empty text, an empty one."""
    return _box(_keys()).encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str) -> str:
    """The text that `seal` was given. Raises: Unsealable if no known key has sealed it."""
    if not sealed:
        return ""
    try:
        return _box(_keys()).decrypt(sealed.encode()).decode()
    except (InvalidToken, ValueError):  # ValueError: not even text
        raise Unsealable(
            "a secret cannot be read: it was sealed with another SECRET_KEY. Give all hosts the same SECRET_KEY; if "
            "that was changed, put the old one into SECRET_KEY_FALLBACKS, or enter the secret again"
        ) from None


def is_sealed_by_present_key(sealed: str) -> bool:
    """True if SECRET_KEY itself opens it, so that no fallback is needed."""
    try:
        _box(_keys()[:1]).decrypt(sealed.encode())
    except (InvalidToken, ValueError):
        return False
    return True


def _keys() -> tuple[str | bytes, ...]:
    return settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS


@lru_cache(maxsize=4)
def _box(keys: tuple[str | bytes, ...]) -> MultiFernet:
    secrets = (key.encode() if isinstance(key, str) else key for key in keys)
    derived = (HKDF(SHA256(), KEY_BYTES, salt=None, info=PURPOSE).derive(secret) for secret in secrets)
    return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in derived])
