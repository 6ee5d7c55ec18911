"""The REST API, on django-ninja. `root` assembles it from one router module for each subject; errors are problem
documents.

resources, operations           one way to make a resource: start at the docstring of `resources`
declared_resources, edits       resources that users edit: what they declare; saved, deleted, refused
fields, pages                   types of requests and answers; pages
idempotency, history, old_rows  creates that may be sent twice; who did what; deletion of old rows
application, document, errors   rules for every operation; the OpenAPI document; problem documents
bodies                          the bodies that are accepted
auth, agent_auth, tokens        the caller: a user, a program, an agent; and rate limits
schedules, triggers, throttles, endpoints, retry_policies    resources that users edit
sources, policies, assignments, repositories, stored_secrets, backups, restores    what is protected
records, queues, breakers, workers, alerts   rows that machines write
agents, agent_messages, usual_check_ins      codes, tokens, check-in
"""
