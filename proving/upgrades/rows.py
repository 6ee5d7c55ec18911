"""Makes rows of each kind in a new database, by the program of any commit: run as a file, in that commit's folder.

It makes one of everything in the commit's API, with the commit's tests; and in each table that is still empty, a row of
the simplest values, if the table takes one. Prints the names of tables that stay empty.
"""

import sys
from datetime import UTC, date, datetime
from typing import Any

import django
from django.apps import apps
from django.db import Error, models, transaction

NOW = datetime.now(UTC)
FOREIGN = {"axes", "contenttypes", "django_q", "sessions", "admin", "auth"}


def value_of(field: Any) -> Any:
    """The simplest value of a field that needs one."""
    if field.remote_field:
        return field.related_model._base_manager.order_by("pk").first()
    if field.choices:
        return field.choices[0][0]
    for kind, value in (
        (models.DateTimeField, NOW), (models.DateField, date(2026, 3, 2)), (models.BooleanField, True),
        (models.IntegerField, 1), (models.FloatField, 1.0), (models.JSONField, {}), (models.BinaryField, b"x"),
        (models.DurationField, NOW - NOW), (models.UUIDField, "0" * 32),
    ):  # fmt: skip
        if isinstance(field, kind):
            return value
    return f"a {field.name}"[: field.max_length or 100]


def needs_value(field: Any) -> bool:
    automatic = field.has_default() or field.null or isinstance(field, models.AutoField | models.GeneratedField)
    return not automatic and not (field.blank and field.empty_strings_allowed)


def fill(model: Any) -> None:
    facts = {field.name: value_of(field) for field in model._meta.concrete_fields if needs_value(field)}
    try:
        with transaction.atomic():
            model._base_manager.create(**facts)
    except (Error, ValueError):
        sys.stdout.write(f"{model._meta.db_table}\n")


def main() -> None:
    sys.path.insert(0, ".")
    django.setup()
    from django.contrib.auth.models import Group, User

    from tests.backupsched.one_of_each import make_one_of_each

    make_one_of_each()
    Group.objects.create(name="operators").user_set.add(User.objects.create_user("ann"))
    for each in apps.get_models():
        ours = each._meta.managed and not each._meta.proxy and each._meta.app_label not in FOREIGN
        if ours and not each._base_manager.exists():
            fill(each)


if __name__ == "__main__":
    main()
