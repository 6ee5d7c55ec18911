"""Stored secrets as they are declared: their name, and the value, which is typed in and never shown again."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from declarations.types import STORABLE, STRICT
from jobs.conf import PROGRAM
from sealing.references import LONGEST_SECRET, SECRET_NAME


def _name_of_secret(name: str) -> str:
    if not re.fullmatch(SECRET_NAME, name):
        raise ValueError("has 1 to 100 letters and digits, and . _ - between them, such as nas-backup")
    return name


def _whole_secret(value: str) -> str:
    """One newline at its end is cut, as after the contents of a file. Raises: ValueError, which does not quote it."""
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ValueError("is missing")
    if value.startswith("-----BEGIN") and "\n" not in value:
        raise ValueError(
            f"is a key whose lines ran into one; send it as it is, as `{PROGRAM} secrets set NAME < FILE` does"
        )
    return value


class StoredSecretDeclaration(BaseModel):
    """A secret that is kept here, sealed. Its value is never shown."""

    model_config = STRICT

    name: Annotated[str, AfterValidator(_name_of_secret)] = Field(
        description="A reference to it is stored: followed by this name. Letters, digits, and . _ - between them"
    )


class NewStoredSecret(StoredSecretDeclaration):
    """The same as it is typed in."""

    value: Annotated[str, Field(max_length=LONGEST_SECRET), STORABLE, AfterValidator(_whole_secret)] = Field(
        description="The password, key or URL itself. It is sealed, and never shown again", repr=False
    )
