from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    Text = models.TextField[str, str]
else:
    Text = models.TextField


class SealedField(Text):
    """A field that holds the output of `seal` (`sealing/encryption.py`). `sealing/key_rotation.py` finds such fields by
    this class alone.
    """
