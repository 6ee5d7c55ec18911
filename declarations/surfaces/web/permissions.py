"""What a person may do with the backlog, in the admin and by the API alike."""

from django.http import HttpRequest


def may_look(request: HttpRequest) -> bool:
    """Whether this person may look at records, and at what has to do with them."""
    return may_operate(request) or bool(request.user.has_perm("jobs.view_backlogrecord"))


def may_operate(request: HttpRequest) -> bool:
    """Whether this person may change what becomes of records: the permission to change one stands for that."""
    return bool(request.user.has_perm("jobs.change_backlogrecord"))
