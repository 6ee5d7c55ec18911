from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    Text = models.TextField[str, str]
else:
    Text = models.TextField


class SealedField(Text):
    """Holds what `seal` made of a secret (`sealing/encryption.py`). Being of this class is all that it takes to be
    sealed anew by `sealing/key_rotation.py`."""
