"""A login that loads one dump: it owns the new database, and may do nothing else at its server.

A dump is a program that anyone who may write to its repository could have written: functions of indexes, checks and
materialized views run while it is loaded. So the source's account makes a role for it, with a random password that only
this process knows, lets it load, and takes its login away again. A restore that was killed leaves the role with its
unfinished database, and the next one of that name drops both.

If the account may not make a login, or the server does not let it in, the dump would run with all rights of the
account. A user has to allow that, for each restore (`Terms.trusted`).
"""

import re
import secrets
from dataclasses import dataclass, replace
from typing import Any

from engines.base import SourceSpec
from engines.restores.pg.connections import connected
from engines.restores.terms import needs_trust
from storage.restoring.base import RestoreRefused

PREFIX = "backupsched_"
OURS = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")
WITH_OPTIONS = 160000
MAY_NOT = "this account may not make a login that owns the new database alone: ALTER ROLE {account} CREATEROLE"
NOT_LET_IN = "the server does not let in a login that was made for it ({error})"
SPACES = """
SELECT DISTINCT t.spcname FROM pg_tablespace t, aclexplode(t.spcacl) a JOIN pg_roles r ON r.oid = a.grantee
 WHERE r.rolname = %s
"""
GRANTEES = """
SELECT DISTINCT r.rolname FROM pg_database d, aclexplode(d.datacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE d.datname = %s
"""
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"


@dataclass(frozen=True)
class Login:
    """A login. `account`: the source as this role reaches it; `by_superuser`: True if a superuser has made it."""

    role: str
    account: SourceSpec
    by_superuser: bool


def make(server: Any, source: SourceSpec, database: str) -> Login:
    """Make a login, and make it the owner of this database: both or neither. Raises: RestoreRefused if the source's
    account may not.
    """
    import psycopg
    from psycopg import sql

    role, password = f"{PREFIX}{secrets.token_hex(8)}", secrets.token_urlsafe(24)
    name = sql.Identifier(role)
    [(account, is_superuser)] = server.execute(
        "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user"
    ).fetchall()
    verifier = server.pgconn.encrypt_password(password.encode(), role.encode()).decode()  # servers log this
    rights = sql.SQL("BYPASSRLS" if is_superuser else "")  # without it, it could not count all rows
    try:
        with server.transaction():
            server.execute(sql.SQL("CREATE ROLE {} LOGIN {} PASSWORD {}").format(name, rights, verifier))
            if not is_superuser:
                more = sql.SQL(" WITH INHERIT TRUE, SET TRUE" if server.info.server_version >= WITH_OPTIONS else "")
                server.execute(sql.SQL("GRANT {} TO {}").format(name, sql.Identifier(account)) + more)
            server.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(database), name))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidGrantOperation):
        raise RestoreRefused(needs_trust(account, source.name, MAY_NOT.format(account=account))) from None
    return Login(role, replace(source, secret=password, options=source.options | {"user": role}), is_superuser)


def let_in(server: Any, login: Login, database: str) -> Login:
    """Find the way in which the server lets it in. Raises: RestoreRefused if it does not."""
    import psycopg

    first: psycopg.OperationalError | None = None
    # a server that asks no one for a password is reached by a source without one
    by_trust = replace(login.account, secret=None)
    for account in (login.account, by_trust):
        try:
            connected(account, (database,)).close()
        except psycopg.OperationalError as error:
            first = first or error
        else:
            return replace(login, account=account)
    said = str(first).strip().splitlines()[-1].rpartition("FATAL: ")[2].strip()
    [account_name] = server.execute("SELECT current_user::text").fetchone()
    raise RestoreRefused(needs_trust(account_name, login.account.name, NOT_LET_IN.format(error=said)))


def close(server: Any, login: Login, database: str) -> None:
    """Close the login: nothing runs as it any more, and its changes to the database itself are undone."""
    from psycopg import sql

    named = sql.Identifier(database)
    rights = sql.SQL("NOBYPASSRLS" if login.by_superuser else "")
    server.execute(sql.SQL("ALTER ROLE {} NOLOGIN {} PASSWORD NULL").format(sql.Identifier(login.role), rights))
    server.execute(END_SESSIONS, (login.role,))
    for (space,) in server.execute(SPACES, (login.role,)).fetchall():
        names = sql.Identifier(space), sql.Identifier(login.role)
        server.execute(sql.SQL("REVOKE ALL ON TABLESPACE {} FROM {}").format(*names))
    server.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(named))
    server.execute(sql.SQL("ALTER DATABASE {} IS_TEMPLATE false CONNECTION LIMIT -1").format(named))
    if grantees := server.execute(GRANTEES, (database,)).fetchall():  # empty if its rights were never changed
        for grantee in {each for (each,) in grantees} - {login.role}:
            whom = sql.Identifier(grantee) if grantee else sql.SQL("PUBLIC")
            server.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM {} CASCADE").format(named, whom))
        server.execute(sql.SQL("GRANT CONNECT, TEMPORARY ON DATABASE {} TO PUBLIC").format(named))


def drop(server: Any, role: str) -> bool:
    """Drop the role. Returns True if it is gone: it may own objects that are given to no one."""
    import psycopg
    from psycopg import sql

    try:
        server.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))
    except psycopg.Error:
        return False
    return True


def left_by(server: Any, database: str) -> str:
    """The role that an interrupted restore has left as the owner of its database; empty if there is none."""
    found = server.execute("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = %s", (database,)).fetchone()
    return found[0] if found and OURS.fullmatch(found[0]) else ""
