"""Permissions as data: each page of the admin and each operation of the API, and the roles that are let in."""

MAY = {
    "anybody": "anonymous account staff looks operates edits restores superuser",
    "staff": "staff looks operates edits restores superuser",
    "looks": "looks operates edits restores superuser",
    "operates": "operates superuser",
    "edits": "edits superuser",
    "restores": "restores superuser",
    "superuser": "superuser",
    "none": "",
}
"""The roles that an entry lets in. `operates`, `edits` and `restores` may look, and none may do what another may."""

OURS = ("jobs", "delivery", "schedules", "api", "sources", "alerting", "audit")
"""The apps whose models are of this project, but `django_q`."""

READ_ONLY = {"changelist": "looks", "history": "looks", "change": "looks none", "add": "none", "delete": "none"}
EDITED = READ_ONLY | {"change": "looks edits", "add": "edits", "delete": "edits"}
OF_SUPERUSERS = {name: who.replace("looks", "superuser") for name, who in READ_ONLY.items()}
ACCOUNTS = dict.fromkeys(READ_ONLY, "superuser")

TABLES = {
    "jobs": {
        "backlogrecord": READ_ONLY, "breaker": READ_ONLY, "decision": READ_ONLY,
        "lane": READ_ONLY, "pausedqueue": READ_ONLY | {"changelist": "looks operates"}, "retrypolicy": EDITED,
        "sweep": READ_ONLY, "throttle": EDITED, "worker": READ_ONLY,
    },
    "delivery": {
        "endpoint": EDITED,
        "storedsecret": READ_ONLY | {"change": "looks superuser", "add": "superuser", "delete": "superuser"},
    },
    "alerting": {
        "alert": READ_ONLY, "alertmessage": READ_ONLY,
        "alertroute": READ_ONLY | {"change": "looks superuser", "add": "superuser", "delete": "superuser"},
    },
    "schedules": {"schedule": EDITED, "trigger": READ_ONLY},
    "api": {"apitoken": READ_ONLY | {"add": "edits"}},
    "sources": {
        "assignment": READ_ONLY | {"delete": "edits"}, "backup": READ_ONLY, "policy": EDITED, "progress": READ_ONLY,
        "repository": EDITED, "restore": READ_ONLY, "source": EDITED,
    },
    "audit": {"auditentry": READ_ONLY},
    "auth": {"user": ACCOUNTS, "group": ACCOUNTS},
    "django_q": dict.fromkeys(("schedule", "success", "failure", "ormq"), OF_SUPERUSERS),
}  # fmt: skip
"""App → model → page of Django's admin → who may GET it and, when it differs, who may POST to it."""

PAGES = {
    f"{app}_{model}_{page}": who
    for app, models in TABLES.items()
    for model, pages in models.items()
    for page, who in pages.items()
} | {
    **dict.fromkeys(("search", "index", "password_change", "password_change_done", "jsi18n"), "staff"),
    **dict.fromkeys(("home", "home-facts", "no-list-of-tables", "docs"), "staff"),
    "home-act": "staff",  # its buttons are refused one by one, as the admin refuses them
    "docs-of": "none",  # there is no document 1
    **dict.fromkeys(("login", "logout", "favicon"), "anybody"),
    "autocomplete": "none staff",  # GET: what it completes is asked for by a field; POST is not one of its methods
    "view_on_site": "none",  # no row has a page of its own
    "app_list": "looks",
    "auth_user_password_change": "superuser",
    "api_apitoken_revoke_this": "edits",
    "jobs_backlogrecord_dead_letters": "looks operates",
    **dict.fromkeys(("jobs_breaker_close_this", "jobs_breaker_probe_this"), "operates"),
    **{f"delivery_endpoint_{verb}": "edits" for verb in ("rotate_secret", "replace_secret", "test")},
    **dict.fromkeys(("jobs_backlogrecord_retry_this", "jobs_backlogrecord_cancel_this"), "operates"),
    **{f"{table}_preview": "edits" for table in ("jobs_retrypolicy", "schedules_schedule", "sources_policy")},
    **{f"{table}_preview_of": "edits" for table in ("jobs_retrypolicy", "schedules_schedule", "sources_policy")},
    **{f"schedules_schedule_{verb}": "operates" for verb in ("trigger_this", "pause_this", "resume_this")},
    "schedules_trigger_cancel_this": "operates",
    **dict.fromkeys(
        [f"sources_assignment_{verb}" for verb in ("accept_this", "copy_this", "drill_this", "check_this")],
        "operates",
    ),
    "sources_repository_check_this": "operates",
    "sources_repository_test_now": "edits",
    **dict.fromkeys(("sources_repository_show_key", "alerting_alertroute_send_test"), "superuser"),
    "sources_source_restore": "restores",
    **dict.fromkeys(("sources_source_act_on_this", "sources_source_enrol", "sources_source_revoke_tokens",
         "sources_source_retire_this", "sources_source_unretire_this"), "edits"),
    **dict.fromkeys(("matrix", "matrix-day", "what-if", "expected-of-source", "expected-of-record"), "looks"),
    **dict.fromkeys(("backoff", "backoff-svg", "backoff-png", "backoff-json"), "staff"),
}  # fmt: skip

DELETED = {"delete_selected": "edits"}
ACTIONS = {
    "delivery.Endpoint": DELETED, "jobs.RetryPolicy": DELETED,
    "jobs.Throttle": DELETED | dict.fromkeys(("pause_until", "resume"), "edits"),
    "sources.Assignment": DELETED | dict.fromkeys(("accept", "copy_now", "drill_now", "check_now"), "operates"),
    "sources.Policy": DELETED | dict.fromkeys(("pause_until", "resume"), "edits"), "sources.Repository": DELETED,
    "delivery.StoredSecret": {"delete_selected": "superuser"},
    "alerting.AlertRoute": {"delete_selected": "superuser"},
    "api.ApiToken": {"revoke": "edits"},
    "jobs.Breaker": dict.fromkeys(("close_now", "probe_now"), "operates"),
    "jobs.BacklogRecord": dict.fromkeys(("retry_now", "cancel"), "operates"),
    "schedules.Schedule": {"delete_selected": "edits"} | dict.fromkeys(("trigger_now", "pause", "resume"), "operates"),
    "schedules.Trigger": {"cancel": "operates"},
    "auth.User": {"delete_selected": "superuser"},
    "auth.Group": {"delete_selected": "superuser"},
    "sources.Source": dict.fromkeys(
        (
            "delete_selected", "back_up_now", "pause", "pause_until", "pause_and_stop", "resume",
            "retire", "unretire",
        ),
        "edits",
    ),
}  # fmt: skip
"""Model → action of its list → who is offered it; Django refuses an action that is not offered."""

ONE = {
    "sources": "source_id", "policies": "policy_id", "repositories": "repository_id", "schedules": "schedule_id",
    "throttles": "throttle_id", "endpoints": "endpoint_id", "retry-policies": "retry_policy_id",
    "assignments": "assignment_id", "restores": "restore_id", "backups": "backup_id", "triggers": "trigger_id",
    "stored-secrets": "stored_secret_id", "records": "record_id", "breakers": "breaker_id", "workers": "worker_id",
    "alerts": "alert_id", "audit": "audit_entry_id", "alert-routes": "alert_route_id",
}  # fmt: skip
EDITED_BY_API = ("sources", "policies", "repositories", "schedules", "throttles", "endpoints", "retry-policies")

OPERATIONS = {
    **{f"GET {name}{one}": "read looks" for name, pk in ONE.items() for one in ("", f"/{{{pk}}}")},
    **{f"POST {name}": "write edits" for name in (*EDITED_BY_API, "assignments")},
    **{
        f"{verb} {name}/{{{ONE[name]}}}": "write edits"
        for name in EDITED_BY_API
        for verb in ("PATCH", "DELETE")
    },
    "DELETE assignments/{assignment_id}": "write edits",
    "POST restores": "operate restores",
    **dict.fromkeys(("POST stored-secrets", "POST alert-routes"), "write superuser"),
    **{f"{verb} alert-routes/{{alert_route_id}}": "write superuser" for verb in ("PATCH", "DELETE")},
    **{f"{verb} stored-secrets/{{stored_secret_id}}": "write superuser" for verb in ("PATCH", "DELETE")},
    "POST enrol": "any anybody",  # the code is what lets it in
    **dict.fromkeys(
        (
            "POST agent/rotate", "POST check-in", "GET agent/status", "POST agent/back-up-now", "POST agent/snooze",
            "DELETE agent/snooze",
        ),
        "agent none",
    ),
    **{
        f"POST sources/{{source_id}}/{verb}": "operate edits"
        for verb in ("back-up-now", "pause", "resume", "check-in")
    },
    **{f"POST sources/{{source_id}}/{verb}": "write edits" for verb in ("enrolment-code", "revoke-tokens")},
    "POST policies/{policy_id}/back-up-now": "operate edits",
    **{f"POST policies/{{policy_id}}/{verb}": "operate edits" for verb in ("pause", "resume")},
    **{f"POST throttles/{{throttle_id}}/{verb}": "operate edits" for verb in ("pause", "resume")},
    "POST assignments/{assignment_id}/back-up-now": "operate edits",
    **{
        f"POST assignments/{{assignment_id}}/{verb}": "operate operates"
        for verb in ("accept", "check", "copy", "drill")
    },
    **dict.fromkeys(("GET policies/{name}/preview", "GET assignments/{assignment_id}/retention"), "read looks"),
    **{f"POST schedules/{{schedule_id}}/{verb}": "operate operates" for verb in ("trigger", "pause", "resume")},
    **{f"GET schedules/{{schedule_id}}/{what}": "read looks" for what in ("preview", "plan")},
    "POST schedules/plan": "read edits",
    **{f"GET sources/{what}": "read looks" for what in ("explain", "{source_id}/explain", "{source_id}/when")},
    "GET sources/at-risk": "read looks",
    "GET schedules/{schedule_id}/explain": "read looks",
    "POST triggers/{trigger_id}/cancel": "operate operates",
    "POST endpoints/{endpoint_id}/rotate": "write edits",
    **{f"POST records/{rest}": "operate operates" for rest in ("retry", "{record_id}/retry", "{record_id}/cancel")},
    **{f"GET {name}": "read looks" for name in ("dead-letters", "queues", "hold", "what-if")},
    **{f"{verb} hold": "operate operates" for verb in ("POST", "DELETE")},
    **{f"POST queues/{{name}}/{verb}": "operate operates" for verb in ("pause", "resume")},
    **{f"POST breakers/{{breaker_id}}/{verb}": "operate operates" for verb in ("close", "probe")},
    "GET me": "any staff",
}  # fmt: skip
"""Operation, below /api/ → the scope that a token needs, and who may with it, or with a session."""

COMMANDS = {
    "alerts": ["", "--json", "routes", "routes --json", "show NAME"], "apply": ["FILE --dry-run"],
    "audit": ["", "--json"],
    "backlog": [
        "", "--json", "list", "list --json", "show ID", "show ID --json", "errors", "errors --json", "breakers",
        "breakers --json", "close-breaker NAME", "log", "log --json", "log NAME", "sweep 1 --dry-run",
        "hold --reason NAME", "hold --reason NAME --json", "release --json", "release",
    ],
    "init": [], "doctor": ["", "--json"], "endpoints": ["", "--json", "show NAME"],
    "policies": ["", "--json", "show NAME", "preview NAME", "prune NAME --dry-run", "backoff", "backoff policy:NAME"],
    "repositories": [
        "", "--json", "show NAME", "foreign --source NAME", "accept --source NAME --at 20260301T090000Z", "check NAME",
        "copy NAME",
    ],
    "restores": ["", "--json", "points NAME", "drill", "drill --json"],
    "schedules": ["", "--json", "show NAME", "preview NAME"],
    "secrets": ["", "--json", "tokens", "tokens --json", "revoke 999999999"],
    "sources": [
        "", "--json", "show NAME", "held-back", "held-back --json", "accept NAME", "enrol NAME", "preview NAME",
        "copy", "copy --json", "check", "check --json", "prune NAME --dry-run", "pause NAME", "resume NAME",
        "backup-now NAME", "retire NAME", "retire NAME --undo", "remove NAME", "export", "export --json",
    ],
    "status": ["", "--json"], "throttles": ["", "--json", "show NAME"],
    "database": ["backups", "backups --json", "restore FILE --list"], "qcluster": ["install --dry-run --json"],
    "simulate": ["FILE"], "demo": [], "run": [], "web": [], "worker": [], "migrate": [],
}  # fmt: skip
"""Command → how it is asked for what it shows; nothing, where it starts and ends processes. All are for an account of
the host that can read the secret key, and for no other."""
