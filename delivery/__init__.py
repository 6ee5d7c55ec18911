"""Delivery: what a record of the kinds `http_callback` and `sqs_message` does, and where it goes.

models      endpoints, their signing secrets; events, which are records that are delivered
endpoints   what people do about endpoints; declarations: what an endpoint may be
handlers    the kinds that deliver; targets: where a record goes and with what; messages: what an event carries
http, sqs   the two ways
addresses   which addresses may be spoken to at all; failures: which answers are tried again
signing     of callbacks; encryption: of what is kept secret in the database; redaction: of what others say
extras      what to install for the libraries that not every installation has, here and above
"""
