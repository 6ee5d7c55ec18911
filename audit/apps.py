from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "audit"
    verbose_name = "Audit"

    def ready(self) -> None:
        from django.contrib.auth.models import Group, User
        from django.db.backends.signals import connection_created
        from django.db.models.signals import post_migrate, pre_migrate

        from audit import actors, triggers
        from audit.tables import follow, named
        from jobs.handlers import later, registry

        connection_created.connect(actors.follow_connection)
        pre_migrate.connect(triggers.remove_before, sender=self)
        post_migrate.connect(triggers.install_after, sender=self)
        follow(User, title="username", hidden=("password",), without=("last_login", "date_joined"))
        follow(Group)
        for rights, owner, table, title in (
            (User.groups.through, "user_id", "auth_user", "username"),
            (User.user_permissions.through, "user_id", "auth_user", "username"),
            (Group.permissions.through, "group_id", "auth_group", "name"),
        ):
            follow(rights, title=named(table, owner, title))
        registry.prunes.append(later("audit.entries:prune"))
