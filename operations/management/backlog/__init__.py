"""Verbs of `backlog`, a module each."""

VERBS = {
    "explain": "show every reason why a record does not run now",
    "hold": "hold everything at once, in every queue",
    "release": "end the hold of everything",
    "sweep": "make records ready that wait for a sweep of the progressive schedule",
    "breakers": "list the circuit breakers, open ones first",
    "close-breaker": "let everything that waits for a breaker continue",
    "probe-breaker": "let one record through an open breaker as a trial",
}
