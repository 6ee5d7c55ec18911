"""The table of the needs of each kind of source. `sources.declarations.validation` and the form of a source read it."""

from dataclasses import dataclass

from engines.cleartext import ALLOWED, AUTHENTICATIONS, IMAP_AUTHENTICATIONS, MARIADB_SSL_MODES, SSL_MODES, TLS


@dataclass(frozen=True)
class KindOption:
    """An option of a kind. `choices`: the values that it takes; any text if there are none."""

    name: str
    means: str
    needed: bool = False
    choices: tuple[str, ...] = ()


MARKER = KindOption("marker", "A file below the path that is there only while the volume is mounted")
CERTIFICATES = KindOption("sslrootcert", "The absolute path of a file of certificates, or: system")
PLAIN_HTTP = KindOption("plain_http", "Send the password over http, without encryption", choices=(ALLOWED,))


@dataclass(frozen=True)
class KindRule:
    """The shape of a kind. `title`, `address` and `path` are words for messages; `address` is None if the kind has
    none.
    """

    title: str
    address: str | None
    path: str
    path_needed: bool = True
    options: tuple[KindOption, ...] = ()
    address_is_url: bool = False
    address_may_be_directory: bool = False
    path_is_absolute: bool = False
    path_is_a_name: bool = False
    has_port: bool = False
    secret_needed: bool = False
    has_host_key: bool = False
    is_any_remote: bool = False
    """True if its options are rclone's settings of a remote, and it has `secrets`."""
    is_a_machine: bool = True
    """True if it may sleep, or have an agent."""
    is_database: bool = False
    """True if its backups are dumps, restored as a new database or as files."""


RULES = {
    "sftp": KindRule(
        title="an SFTP host",
        address="a host name or IP address",
        path="a directory, such as /home",
        options=(KindOption("user", "The account on the host that reads the files", needed=True), MARKER),
        has_port=True,
        has_host_key=True,
        secret_needed=True,
    ),
    "s3": KindRule(
        title="an S3 bucket",
        address="the URL of its endpoint, such as https://s3.eu-central-1.amazonaws.com",
        path="a bucket, such as photos or photos/2026",
        options=(
            KindOption("access_key_id", "The key's public half; the secret is the other", needed=True),
            KindOption("region", "As eu-central-1"),
            KindOption("provider", "As rclone names it: AWS, Minio, Wasabi, Other"),
            PLAIN_HTTP,
            MARKER,
        ),
        address_is_url=True,
        secret_needed=True,
        is_a_machine=False,
    ),
    "webdav": KindRule(
        title="a WebDAV share",
        address="a URL, such as https://cloud.example.org/dav",
        path="a directory below the URL",
        path_needed=False,
        options=(
            KindOption("user", "The account that reads the files"),
            KindOption("vendor", "As rclone names it: nextcloud, owncloud, sharepoint, other"),
            PLAIN_HTTP,
            MARKER,
        ),
        address_is_url=True,
    ),
    "local": KindRule(
        title="a local folder",
        address=None,
        path="the absolute path of a directory",
        options=(MARKER,),
        path_is_absolute=True,
    ),
    "postgresql": KindRule(
        title="a PostgreSQL database",
        address="a host name, an IP address or a socket directory",
        path="the name of a database",
        options=(
            KindOption("user", "The role that dumps the database", needed=True),
            KindOption("auth", "The ways in which the server may ask for the password", choices=AUTHENTICATIONS),
            KindOption("sslmode", "As libpq names it", choices=SSL_MODES),
            CERTIFICATES,
        ),
        address_may_be_directory=True,
        path_is_a_name=True,
        has_port=True,
        is_database=True,
    ),
    "mariadb": KindRule(
        title="a MariaDB or MySQL database",
        address="a host name, an IP address or the path of a socket, such as /run/mysqld/mysqld.sock",
        path="the name of a database",
        options=(
            KindOption("user", "The account of the server that dumps the database", needed=True),
            KindOption(
                "sslmode", "Whether the connection is encrypted, and its server verified", choices=MARIADB_SSL_MODES
            ),
            CERTIFICATES,
        ),
        address_may_be_directory=True,
        path_is_a_name=True,
        has_port=True,
        is_database=True,
    ),
    "sqlite": KindRule(
        title="a SQLite database",
        address=None,
        path="the absolute path of its file, such as /srv/shop/shop.sqlite3",
        path_is_absolute=True,
        is_database=True,
    ),
    "rclone": KindRule(
        title="other storage that rclone reaches",
        address=None,
        path="a path there, such as share/folder or bucket; all that its account sees if empty",
        path_needed=False,
        is_any_remote=True,
        is_a_machine=False,
    ),
    "imap": KindRule(
        title="a mailbox",
        address="the host name of its IMAP server, such as imap.example.org",
        path="one of its folders, with everything below it, such as Archive/2026; the whole mailbox if empty",
        path_needed=False,
        options=(
            KindOption("user", "The account, often the whole address", needed=True),
            KindOption(
                "auth",
                "xoauth2, if the secret is an access token of OAuth instead of a password",
                choices=IMAP_AUTHENTICATIONS,
            ),
            KindOption("tls", "implicit (port 993), starttls (143), or none, which sends all in clear", choices=TLS),
            KindOption("leave_out", "Folders that are not copied, as: [Gmail]/All Mail, Spam"),
            CERTIFICATES,
        ),
        has_port=True,
        secret_needed=True,
        is_a_machine=False,
    ),
}
