"""A secret and a key that are stored by the command `secrets`, which must print neither."""

from tests.commands import command

SECRET = "swordfish 'ü' \\"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----"
run, _refused = command("secrets", with_errors=True)


def refused(*arguments: str, code: int = 2) -> str:
    text = _refused(*arguments, code=code)
    assert "swordfish" not in text
    return text
