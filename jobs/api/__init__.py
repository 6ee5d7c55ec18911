"""The parts of the REST API that know nothing of backups. `sources/api` puts them together with its own.

errors, bodies, limits   one shape for every error, which bodies are read, how often somebody may ask
auth                     members of staff, and what they may do
records, dead_letters    the backlog: look, retry, cancel
rules                    retry policies and breakers
"""
