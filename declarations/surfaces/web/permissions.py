"""Permissions of users on the backlog, in the admin and by the API alike."""

from django.http import HttpRequest


def may_look(request: HttpRequest) -> bool:
    """True if this user may view records and related rows."""
    return may_operate(request) or bool(request.user.has_perm("jobs.view_backlogrecord"))


def may_operate(request: HttpRequest) -> bool:
    """True if this user may retry and cancel records: the permission to change a record covers that."""
    return bool(request.user.has_perm("jobs.change_backlogrecord"))
