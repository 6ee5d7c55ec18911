"""The questions to a new installation, and the test of each answer; and the file that keeps the answers
for settings.
"""

import getpass
import os
import re
import shlex
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import psycopg
from django.core.exceptions import ImproperlyConfigured, ValidationError

from backupsched.secret_files import SUFFIX, is_given

SETTINGS = "settings.env"
"""The file's name in an installation's directory: lines of NAME=VALUE, as systemd's EnvironmentFile and shells read
them.
"""
OLDEST_SERVER = 140000
CONNECT_SECONDS = 10
IDENTITY = "repository.json"
"""The file with the identity of a repository."""
LINE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)")
LOOK = """
SELECT has_schema_privilege(current_schema(), 'CREATE'), pg_is_in_recovery(), current_setting('server_encoding')
"""


class Unfit(ValueError):
    """An unfit answer. The text gives the reason and the remedy."""


def read_settings(folder: Path, environment: MutableMapping[str, str]) -> dict[str, Path]:
    """Add the variables of `folder`/settings.env to the environment, which wins. Returns those that were added, with
    the file's path. Raises: ImproperlyConfigured.
    """
    path, added = folder / SETTINGS, dict[str, Path]()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return added
    except NotADirectoryError as error:
        raise ImproperlyConfigured(f"{folder} is not a directory: name another one in BACKUPSCHED_VAR") from error
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ImproperlyConfigured(f"{path} cannot be read: {why}. Let the account of this process read it") from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            name, value = ((found := LINE.fullmatch(line.strip())) and found.groups()) or ("", "")
            [word] = shlex.split(value) or [""]
        except ValueError:
            name = ""
        if not name:
            raise ImproperlyConfigured(f"{path}, line {number}, is not NAME=VALUE, with quotes around spaces")
        if not is_given(name, environment):
            environment[name] = word
            added[name] = path
    return added


def write_settings(folder: Path, settings: dict[str, str]) -> Path:
    """Put these into `folder`/settings.env, for its owner only: a URL may hold a password. They replace settings of the
    same names in the file, including those that name a file. Raises: OSError.
    """
    replaced = {name.removesuffix(SUFFIX) for name in settings}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lines = (folder / SETTINGS).read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        lines = ["# Settings of this installation. Variables of the environment win over these.\n"]
    text = "".join(each for each in lines if _plain_name(each) not in replaced)
    text += "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    descriptor, draft = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(draft).replace(folder / SETTINGS)
    return folder / SETTINGS


def _plain_name(line: str) -> str:
    return line.partition("=")[0].strip().removesuffix(SUFFIX)


def database(url: str) -> str:
    """Returns the URL of a PostgreSQL that can be used. Raises: Unfit, and never with its password."""
    from backupsched.database import databases

    try:
        databases(url, Path())
    except ImproperlyConfigured as error:
        raise Unfit(str(error)) from None
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
            version = connection.info.server_version
            row = connection.execute(LOOK).fetchone()
    except psycopg.Error as error:
        why = " ".join(str(error).split())
        raise Unfit(f"{why} (is the server there, the database made, the password right?)") from None
    may_create, is_replica, encoding = row or (False, False, "")
    if version < OLDEST_SERVER:
        raise Unfit(f"this server is PostgreSQL {version // 10000}; 14 or later is needed")
    if is_replica:
        raise Unfit("this server is a replica and accepts no changes: name the primary")
    if not may_create:
        raise Unfit("this account may not create tables there: make it the owner (ALTER DATABASE … OWNER TO …)")
    if encoding != "UTF8":
        raise Unfit(f"the encoding of this database is {encoding}: make one with ENCODING 'UTF8' TEMPLATE template0")
    return url


def place(text: str) -> Path:
    """Returns the absolute path that a user means; nothing has to be there. Raises: Unfit for one that the system
    refuses to look at.
    """
    try:
        text.encode()
        path = Path(text).expanduser().absolute()
    except UnicodeEncodeError:  # bytes of an older encoding; the database stores text
        raise Unfit(f"{text!a} is not text in UTF-8: name another folder, such as the one that holds it") from None
    except (RuntimeError, OSError):  # nobody has the name behind `~`, or the current directory was removed
        raise Unfit(f"{text} cannot be found from here: give its whole path, such as /srv/papers") from None
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise Unfit(
            f"{path} cannot be read: {error.strerror}. Name another folder, or run it as an account that may"
        ) from None
    except ValueError:  # in the words of each Python, another
        raise Unfit(f"{text!a} contains a zero byte, which a path must not: name another folder") from None
    return path


def source(text: str) -> str:
    """Returns the absolute path of a folder that can be read. Raises: Unfit."""
    path = place(text)
    if not path.is_dir():
        raise Unfit(f"{path} is not a folder on this host (sources elsewhere are added later, by `sources add`)")
    try:
        is_empty = not any(path.iterdir())
    except OSError as error:
        raise Unfit(f"{path} cannot be read: {error.strerror}. Run it as an account that may") from None
    if is_empty:
        raise Unfit(f"{path} is empty: name a folder with something to back up")
    return str(path)


def repository(text: str, beside: str) -> str:
    """Check the folder of a repository. Returns its absolute path: it can be written, is made if it was missing, is
    neither in the source `beside` nor around it, and contains nothing except a repository. Raises: Unfit."""
    from engines.at_repositories.probing import of_others

    path = place(text)
    real, real_source = path.resolve(), Path(beside).resolve()
    if real_source == real or real_source in real.parents:
        raise Unfit(f"{path} is inside {beside}: each backup would copy the earlier ones. Name a folder elsewhere")
    if real in real_source.parents:
        raise Unfit(f"{path} holds {beside}, which is backed up: name a separate folder, preferably on another disk")
    if path.exists() and not path.is_dir():
        raise Unfit(f"{path} is not a folder: name one, or one that does not exist yet")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        found = [] if (path / IDENTITY).exists() else of_others(each.name for each in path.iterdir())
    except OSError as error:
        raise Unfit(
            f"{path} cannot be written: {error.strerror}. Name another folder, or run it as an account that may"
        ) from None
    if found:
        named = f"such as {min(found)}: name an empty folder, or one that does not exist yet, such as"
        raise Unfit(f"{path} holds other files, {named} {path / 'backupsched'}")
    return str(path)


def zone(name: str) -> str:
    """Returns the name of a time zone. Raises: Unfit."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Unfit(f"{name!r} is not a time zone: name one such as Europe/Berlin or America/New_York") from None


def zone_of_host() -> str:
    """This host's time zone, or UTC."""
    linked = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").lstrip(":"), linked):
        try:
            return zone(name) if name else "UTC"
        except Unfit:
            continue
    return "UTC"


def name_of_user() -> str:
    """The name of the account that runs this process; empty for a number without a name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def account(name: str) -> str:
    """Returns the name of an account that can be made, or that is an administrator's already. Raises: Unfit."""
    from django.contrib.auth.models import User

    try:
        User._meta.get_field("username").clean(name, None)
    except ValidationError as error:
        raise Unfit(" ".join(error.messages)) from None
    found = User.objects.filter(username=name).first()
    if found and not (found.is_superuser and found.is_active):
        raise Unfit(f"{name} exists, and is not an active superuser: name another account")
    return name


def password(text: str) -> str:
    """Returns a password that is not too easy. Raises: Unfit."""
    from django.contrib.auth.password_validation import validate_password

    try:
        validate_password(text)
    except ValidationError as error:
        raise Unfit(" ".join(error.messages)) from None
    return text
