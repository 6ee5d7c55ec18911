"""Verbs of `secrets` about the tokens of the API, a module each."""

VERBS = {
    "tokens": "list the tokens with which programs use the API",
    "issue": "make a token of the API, and print it: it is not shown again",
    "revoke": "end a token of the API",
}
