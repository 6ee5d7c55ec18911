"""A scraper of /metrics: its token, and the samples that it reads."""

from django.contrib.auth.models import Permission, User
from prometheus_client.parser import text_string_to_metric_families

from api import tokens


def read(text: bytes) -> dict[tuple, float]:
    samples = (each for family in text_string_to_metric_families(text.decode()) for each in family.samples)
    return {(each.name.removeprefix("backupsched_"), *sorted(each.labels.values())): each.value for each in samples}


def token_for(*permissions: str, scopes: tuple[str, ...] = ("read",)) -> dict[str, str]:
    user = User.objects.create_user(f"prometheus{len(permissions)}{scopes}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return {"HTTP_AUTHORIZATION": f"Bearer {tokens.issue(user, 'scrape', scopes).text}"}
