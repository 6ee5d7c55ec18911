"""A new database like the one of a dump: with its encoding, locale, owner, rights and settings, as `database.json` of
the point says, under another name.

The file comes from a repository and is not trusted: separate statements are built from its parts. Properties that the
server does not accept are named, and never silently left to its defaults. A setting that users may not make for
themselves could load a library into the server, so it is left to an operator.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engines.restores.pg.failures import words_of
from external.processes.rows import row_of, texts

RIGHTS = frozenset({"CONNECT", "CREATE", "TEMPORARY"})
WITH_PROVIDERS, WITH_BUILTIN = 150000, 170000
ICU, BUILTIN = "i", "b"
WITHOUT_FILE = "DATABASE: its owner, rights and settings are not known: the point was made before they were kept"
OF_PROVIDER = "locale {} of its provider (made with that of libc)"
OF_SUPERUSER = "DATABASE setting {}: only a superuser may make it; do so by hand"
ALIKE = "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = %s"


@dataclass
class Properties:
    """The properties that `engines/postgresql/sql/database.sql` lists. `needs`: the things that a server must have for
    the database (`target.py`); `left`: the things that were not done, as text.
    """

    encoding: str = ""
    columns: dict[str, Any] = field(default_factory=dict)
    owner: str = ""
    tablespace: str = "pg_default"
    comment: str | None = None
    rights: list[dict[str, Any]] | None = None
    settings: list[dict[str, Any]] | None = None
    needs: dict[str, Any] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


PARTS = Properties.__dataclass_fields__.keys() - {"left"}
"""The names of the parts that the file may have."""


def of_file(lines: Iterable[str]) -> Properties | None:
    """The properties in a file; None if there is no file, or it is not a file of properties."""
    row = row_of("".join(lines))
    if row is None or row.keys() - PARTS:
        return None
    found = Properties(**row)
    lists = [each for each in (found.rights, found.settings) if each is not None]
    words = (found.encoding, found.owner, found.tablespace, found.comment or "")
    is_one = isinstance(found.columns, dict) and isinstance(found.needs, dict)
    is_one = is_one and all(isinstance(each, str) for each in words)
    is_one = is_one and all(isinstance(each, list) and all(map(_is_of_a_role, each)) for each in lists)
    return found if is_one else None


def _is_of_a_role(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("role"), str | None)


def of_source(server: Any, name: str, encoding: str) -> Properties:
    """The properties of the database that was dumped, as far as it is still there."""
    found = server.execute(ALIKE, (name,)).fetchone()
    if found is None:
        lacks = "DATABASE: its locale is not known, and is that of the server: the point was made before it was kept"
        return Properties(encoding, left=[lacks, WITHOUT_FILE])
    return Properties(found[0], {"datcollate": found[1], "datctype": found[2]}, left=[WITHOUT_FILE])


def create(server: Any, name: str, like: Properties) -> None:
    """Make an empty database. Raises: psycopg.Error when not even the plainest one is taken."""
    import psycopg
    from psycopg import sql

    first: psycopg.Error | None = None
    ways = list(_ways(like, server.info.server_version))
    for lacks, options in ways:
        parts = [sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))]
        parts += [sql.SQL(f"{option} {{}}").format(value) for option, value in options]
        try:
            server.execute(sql.SQL(" ").join(parts))
        except (psycopg.DataError, psycopg.NotSupportedError, psycopg.ProgrammingError) as error:
            if error.sqlstate in ("42501", "42P04"):  # no right to make any, or a name that is taken
                raise
            first = first or error
        else:
            state = first.sqlstate if first else ""
            like.left += [f"DATABASE {each}: {state} {words_of(state or '')}".rstrip(" :") for each in lacks]
            return
    if first:
        raise first


def foreseen(server: Any, like: Properties, providers: set[str], tablespaces: set[str]) -> list[str]:
    """The things that would not be done, as far as that can be known in advance. `providers`: of collations that the
    server has.
    """
    lacks = [] if like.tablespace in tablespaces else [f"tablespace {like.tablespace}"]
    lacks += next(_ways(like, server.info.server_version))[0]
    if like.columns.get("datlocprovider") == ICU and ICU not in providers and not lacks:
        lacks.append(OF_PROVIDER.format(_locale(like)))
    names = {value.partition("=")[0]: None for each in like.settings or () for value in texts(each, "values")}
    left = [OF_SUPERUSER.format(each) for each in names if not _is_for_users(server, each)]
    return [*(f"DATABASE {each}" for each in lacks), *left]


def _locale(like: Properties) -> str:
    return str(like.columns.get("datlocale") or like.columns.get("daticulocale") or "")


def _ways(like: Properties, version: int) -> Iterator[tuple[list[str], list[tuple[str, Any]]]]:
    """The ways to make the database, from one with all known properties to the plainest: what each lacks, and its
    options.
    """
    from psycopg import sql

    columns = like.columns
    plain = [("ENCODING", sql.Literal(like.encoding))]
    libc = [
        (option, sql.Literal(columns[column]))
        for option, column in (("LC_COLLATE", "datcollate"), ("LC_CTYPE", "datctype"))
        if columns.get(column)
    ]
    provider = columns.get("datlocprovider", "c")
    locale = _locale(like)
    space = [("TABLESPACE", sql.Identifier(like.tablespace))] if like.tablespace != "pg_default" else []
    lacks_space = [f"tablespace {like.tablespace}"] if space else []
    of_provider = []
    if provider == ICU and version >= WITH_PROVIDERS:
        of_provider = [("LOCALE_PROVIDER", sql.SQL("icu")), ("ICU_LOCALE", sql.Literal(locale))]
        if rules := columns.get("daticurules"):
            of_provider.append(("ICU_RULES", sql.Literal(rules)))
    elif provider == BUILTIN and version >= WITH_BUILTIN:
        of_provider = [("LOCALE_PROVIDER", sql.SQL("builtin")), ("BUILTIN_LOCALE", sql.Literal(locale))]
    elif version >= WITH_PROVIDERS:
        of_provider = [("LOCALE_PROVIDER", sql.SQL("libc"))]
    is_other = provider != "c" and len(of_provider) < 2
    lacks = [OF_PROVIDER.format(locale)] if provider != "c" else []
    yield (lacks if is_other else []), [*plain, *libc, *of_provider, *space]
    if space:
        yield [*lacks_space, *(lacks if is_other else [])], [*plain, *libc, *of_provider]
    if len(of_provider) > 1:
        yield [*lacks_space, *lacks], [*plain, *libc, ("LOCALE_PROVIDER", sql.SQL("libc"))]
    ordered = [f"locale {columns.get('datcollate')} (made as C)"]
    for encoding in (plain, [("ENCODING", sql.Literal("UTF8"))]):
        lacks = ordered if encoding is plain else [*ordered, f"encoding {like.encoding} (made as UTF8)"]
        options = [*encoding, ("LC_COLLATE", sql.Literal("C")), ("LC_CTYPE", sql.Literal("C"))]
        yield [*lacks_space, *lacks], options


def furnish(server: Any, name: str, like: Properties) -> None:
    """Give the database its comment, rights and settings. Raises: psycopg.Error when the server goes away."""
    from psycopg import sql

    database = sql.Identifier(name)
    if like.comment is not None:
        _try(server, like, "comment", sql.SQL("COMMENT ON DATABASE {} IS {}").format(database, like.comment))
    if like.rights is not None:
        _try(server, like, "rights of all", sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    for each in like.rights or ():
        right, role = str(each.get("right")), each.get("role")
        if right in RIGHTS and role != like.owner:
            to = sql.Identifier(role) if role else sql.SQL("PUBLIC")
            grant = sql.SQL(f"GRANT {right} ON DATABASE {{}} TO {{}}").format(database, to)
            more = sql.SQL(" WITH GRANT OPTION" if each.get("may_grant") and role else "")
            _try(server, like, f"right {right} of {role or 'all'}", grant + more)
    for each in like.settings or ():
        for value in texts(each, "values"):
            _set(server, name, like, each.get("role"), *value.partition("=")[::2])
    limit, is_template = like.columns.get("datconnlimit"), like.columns.get("datistemplate")
    if isinstance(limit, int) and limit >= 0:
        limited = sql.SQL("ALTER DATABASE {} CONNECTION LIMIT {}").format(database, sql.Literal(limit))
        _try(server, like, f"connection limit {limit}", limited)
    if is_template is True:
        _try(server, like, "template", sql.SQL("ALTER DATABASE {} IS_TEMPLATE true").format(database))


def give_to_owner(server: Any, name: str, like: Properties) -> None:
    """Give the database to its owner. This is the last step, in the transaction that renames it: only its owner may
    rename it.
    """
    from psycopg import sql

    if like.owner:
        names = sql.Identifier(name), sql.Identifier(like.owner)
        _try(server, like, f"owner {like.owner}", sql.SQL("ALTER DATABASE {} OWNER TO {}").format(*names))


def _set(server: Any, name: str, like: Properties, role: str | None, setting: str, value: str) -> None:
    from psycopg import sql

    if not _is_for_users(server, setting):
        like.left.append(OF_SUPERUSER.format(setting))
        return
    whose = [sql.SQL("ALTER ROLE {} IN DATABASE {}").format(sql.Identifier(role), sql.Identifier(name))] if role else []
    whose = whose or [sql.SQL("ALTER DATABASE {}").format(sql.Identifier(name))]
    keep = sql.SQL("{} SET {} FROM CURRENT").format(*whose, sql.Identifier(*setting.split(".")))
    # a list such as search_path is one value here, and several in a statement
    what = f"setting {setting}{f' of {role}' if role else ''}"
    _try(server, like, what, sql.SQL("SELECT set_config({}, {}, true)").format(setting, value), keep)


def _is_for_users(server: Any, setting: str) -> bool:
    """True if users may make that setting for themselves."""
    context = server.execute("SELECT context FROM pg_settings WHERE name = %s", (setting,)).fetchone()
    return bool(context == ("user",) or (context is None and "." in setting))


def _try(server: Any, like: Properties, what: str, *statements: Any) -> None:
    import psycopg

    try:
        with server.transaction():
            for each in statements:
                server.execute(each)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        state = error.sqlstate or ""
        like.left.append(f"DATABASE {what}: {state} {words_of(state)}".rstrip(" :"))
