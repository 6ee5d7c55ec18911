"""Common parts of admin and API: permissions, the actor of a request, and the requests that are refused."""
