"""A table of the things that a backup does not keep, by kind of source and repository: shown before the first one.
Pure."""

from storage.places.location import BUCKETS

NOT_KEPT = {
    "local": (
        "sockets, pipes and devices",
        "extended attributes of a file that together have more than 32 KiB",
        "holes of sparse files: they are stored, and come back, in full size",
    ),
    "sftp": ("symbolic links", "owners, groups and modes", "hard links: each name becomes a separate file"),
    "s3": ("metadata, tags and access rules of objects", "older versions of objects", "storage classes"),
    "webdav": ("properties other than the modification time", "access rules and locks", "older versions of files"),
    "rclone": (
        "symbolic links, owners and modes",
        "older versions of files, access rules and shares",
        "a change that keeps a file's size, where the storage reports neither times nor digests",
    ),
    "mariadb": (
        "other databases of the server",
        "the server's configuration, such as my.cnf",
        "users, roles and grants, unless the user of the source may read the database mysql",
        "routines, triggers and events that the user of the source may not see",
        "changes between two backups: no binary log is kept",
    ),
    "sqlite": (
        "databases in other files, which it attaches: each is a separate source",
        "changes between two backups",
    ),
    "imap": (
        "keywords and labels of messages: of their flags a Maildir knows seen, answered, flagged, forwarded, draft and "
        "deleted",
        "subscriptions, access rights and filters",
    ),
    "postgresql": (
        "other databases of the server",
        "the server's configuration, such as postgresql.conf and pg_hba.conf",
        "passwords of its roles, unless the user of the source may read them",
        "rows of foreign tables, and subscriptions unless the user of the source is a superuser",
        "changes between two backups: no write-ahead log is kept",
    ),
}
UNTOLD = {
    "sftp": "symbolic and hard links, owners, groups and modes are not kept, and rclone does not list them",
}
"""A text that each point has, by kind of source, since its run cannot know."""
DATABASES = ("mariadb", "postgresql", "sqlite")


def not_kept(kind: str, remote: str = "") -> list[str]:
    """The things of this kind of source that its backups do not keep. `remote`: rclone's type of the repository's
    remote; empty for a directory.
    """
    in_a_bucket = kind not in DATABASES and remote in BUCKETS
    return [*NOT_KEPT[kind], *(["empty folders"] if in_a_bucket else [])]
