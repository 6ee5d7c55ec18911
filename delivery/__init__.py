"""Delivery: what a record of the kinds `http_callback` and `sqs_message` does, and where it goes.

models      endpoints and their signing secrets
endpoints   what people do about endpoints; declarations: what an endpoint may be
handlers    the kinds that deliver, and the document that each event is; targets: where a record goes and with what
http, sqs   the two ways, by one client; aside: what blocks, beside its event loop
addresses   which addresses may be spoken to at all
signing     of callbacks; encryption: of what is kept secret in the database; redaction: of what comes back from outside
extras      what to install for the libraries that not every installation has, here and above
"""
