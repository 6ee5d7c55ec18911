"""What each kind of source needs, as a table. `sources.validation` reads it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """The shape of a kind. `title`, `address` and `path` are words for messages; no `address`: the kind has none."""

    title: str
    address: str | None
    path: str
    path_needed: bool = True
    options_needed: tuple[str, ...] = ()
    options_allowed: tuple[str, ...] = ()
    address_is_url: bool = False
    address_may_be_directory: bool = False
    path_is_absolute: bool = False
    path_is_a_name: bool = False
    has_port: bool = False
    secret_needed: bool = False
    has_host_key: bool = False


RULES = {
    "sftp": Rule(
        title="an SFTP host",
        address="a host name or IP address",
        path="a directory, as /home",
        options_needed=("user",),
        has_port=True,
        has_host_key=True,
        secret_needed=True,
    ),
    "s3": Rule(
        title="an S3 bucket",
        address="the URL of its endpoint, as https://s3.eu-central-1.amazonaws.com",
        path="a bucket, as photos or photos/2026",
        options_needed=("access_key_id",),
        options_allowed=("region", "provider", "plain_http"),
        address_is_url=True,
        secret_needed=True,
    ),
    "webdav": Rule(
        title="a WebDAV share",
        address="a URL, as https://cloud.example.org/dav",
        path="a directory below the URL",
        path_needed=False,
        options_allowed=("user", "vendor", "plain_http"),
        address_is_url=True,
    ),
    "local": Rule(
        title="a local folder",
        address=None,
        path="the absolute path of a directory",
        options_allowed=("marker",),
        path_is_absolute=True,
    ),
    "postgresql": Rule(
        title="a PostgreSQL database",
        address="a host name, an IP address or a socket directory",
        path="the name of a database",
        options_needed=("user",),
        options_allowed=("auth", "sslmode", "sslrootcert"),
        address_may_be_directory=True,
        path_is_a_name=True,
        has_port=True,
    ),
}
