"""The REST API, on django-ninja. `root` puts it together, a router module per theme; errors are problem documents.

resources, operations           one way to make a resource: start at the docstring of `resources`
declared, edits                 those that people edit: what they declare; saved, deleted, refused
fields, pages                   what may be sent, and what of a model is answered; pages
idempotency, history, pruning   creates that may be sent twice; who did what; what is forgotten
application, document, errors   what holds for every operation; the OpenAPI document; problem documents
bodies                          which bodies are read
auth, agent_auth, tokens        who asks: a person, a program, an agent; and how often
schedules, triggers, throttles, endpoints, retry_policies    what people edit
sources, policies, assignments, repositories, stored_secrets, backups, restores    what is protected
records, queues, breakers, workers, alerts   what machines write
agents, agent_messages, usual_check_ins      codes, tokens, check-in
"""
