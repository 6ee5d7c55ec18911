"""The parts of the REST API that know nothing of backups. `sources/api` puts them together with its own.

resources, operations, steps    one way to make a resource: start at the docstring of `resources`
fields, cursors, etags          what may be sent; pages; who saw what
idempotency, history, pruning   creates that may be sent twice; who did what; what is forgotten
application, document, errors   what holds for every operation; the OpenAPI document; problem documents
auth, bodies, limits, wording   who asks, which bodies are read, how often, and what is said
schedules, triggers, throttles, endpoints, retry_policies    what people edit
records, events, attempts, dead_letters, queues, breakers, workers   what machines write
retrying, choosing              verbs for it, and which of it is meant
"""
