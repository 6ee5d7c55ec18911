"""The REST API, on django-ninja. `root` puts it together, a router module per theme; errors are problem documents.

resources, operations, steps    one way to make a resource: start at the docstring of `resources`
fields, cursors, etags          what may be sent; pages; who saw what
idempotency, history, pruning   creates that may be sent twice; who did what; what is forgotten
application, document, errors   what holds for every operation; the OpenAPI document; problem documents
auth, agent_auth, tokens        who asks: a person, a program, an agent; and how often
bodies, wording                 which bodies are read, and what is said
schedules, triggers, throttles, endpoints, retry_policies    what people edit
sources, policies, assignments, repositories, backups        what is protected
records, events, attempts, dead_letters, queues, breakers, workers, alerts   what machines write
enrolment, agents               codes, tokens, check-in
retrying, choosing              verbs for records, and which of them are meant
"""
