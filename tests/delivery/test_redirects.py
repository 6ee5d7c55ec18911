import pytest
from aiohttp import web

from delivery import signing
from delivery.addresses import read
from delivery.http.callback import Exchange, NotFollowed
from delivery.models import Endpoint
from delivery.targets import Host, Target
from jobs.outcomes import BreakerTarget, Failed, Succeeded
from sealing.encryption import seal
from tests.delivery.events import EVENT_ID, deliver, failure_at, make_endpoint, make_event
from tests.delivery.receiver import answering, receiving

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_loopback_allowed")]


class TestARedirect:
    def test_is_not_followed_and_names_where_it_leads(self):
        with receiving() as other:
            outcome = failure_at(answering(307, Location=f"{other.url}?token=secret"))
            assert other.origin in outcome.error
            assert "secret" not in outcome.error
            assert outcome.fault_of is None
            assert other.requests == []

    def test_is_followed_when_the_endpoint_says_so_without_what_proves_who_we_are(self):
        with receiving() as other, receiving(answering(308, Location=other.url)) as receiver:
            endpoint = make_endpoint(
                receiver.url,
                follow_redirects=True,
                headers={"X-Tenant": "7"},
                sealed_authorization=seal("Bearer abcdef"),
            )
            signing.rotate(endpoint)
            [outcome] = deliver(make_event(endpoint))
        [first], [second] = receiver.requests, other.requests
        assert isinstance(outcome, Succeeded)
        assert outcome.facts["redirects"] == 1
        assert first.body == second.body
        assert {"authorization", "webhook-signature", "x-tenant"} <= first.headers.keys()
        assert not {"authorization", "webhook-signature", "x-tenant"} & second.headers.keys()
        assert second.headers["idempotency-key"] == EVENT_ID

    def test_within_the_origin_keeps_what_proves_who_we_are(self):
        async def move(request: web.Request) -> web.Response:
            return web.Response(status=200 if request.path == "/new" else 307, headers={"Location": "/new"})

        with receiving(move) as receiver:
            authorization = seal("Bearer abcdef")
            endpoint = make_endpoint(receiver.url, follow_redirects=True, sealed_authorization=authorization)
            [outcome] = deliver(make_event(endpoint))
        assert isinstance(outcome, Succeeded)
        assert [request.path for request in receiver.requests] == ["/hook", "/new"]
        assert receiver.requests[1].headers["authorization"] == "Bearer abcdef"

    @pytest.mark.parametrize(
        ("status", "where", "error"),
        [
            (307, "http://127.0.0.2:1/", "where nothing is delivered"),
            (308, "http://169.254.169.254/latest", "where nothing is delivered"),
            (307, "http://localhost:1/", "where nothing is delivered"),
            (308, "ftp://127.0.0.1/", "where nothing is delivered"),
            (308, "http://a:b@127.0.0.1/", "where nothing is delivered"),
            (308, "http://[", "where nothing is delivered"),
            (302, "/new", "redirects are not followed"),  # it would lose the body
            (303, "/new", "redirects are not followed"),
        ],
    )
    def test_to_a_private_address_or_no_place_or_without_the_body_is_refused(self, status, where, error):
        outcome = failure_at(answering(status, Location=where), follow_redirects=True)
        assert error in outcome.error
        assert outcome.fault_of is None

    def test_is_followed_five_times_and_no_more(self):
        with receiving(answering(307, Location="/hook")) as receiver:
            [outcome] = deliver(make_event(make_endpoint(receiver.url, follow_redirects=True)))
        assert isinstance(outcome, Failed)
        assert "after 5 redirects" in outcome.error
        assert len(receiver.requests) == 6

    def test_from_https_to_http_is_refused(self):
        place = read("https://1.1.1.1/")
        exchange = Exchange(Target(Endpoint(), place, Host(BreakerTarget("host", "host"))), EVENT_ID, b"")
        assert exchange.follow("//8.8.8.8/new").origin == "https://8.8.8.8:443"
        with pytest.raises(NotFollowed, match="which is not encrypted"):
            exchange.follow("http://8.8.8.8/new")
