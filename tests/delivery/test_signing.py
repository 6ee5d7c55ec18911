import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from delivery.encryption import unseal
from delivery.models import SigningSecret
from delivery.signing import headers, key_of, keys_in_use, new_secret, rotate
from tests.delivery.events import make_endpoint
from tests.factories import NOON
from tests.threads import at_once

BODY = json.dumps({"shard": 3}).encode()
NOW = int(NOON.timestamp())


class TestASecret:
    def test_is_random_and_as_long_as_the_specification_wants(self):
        assert new_secret() != new_secret()
        assert new_secret().startswith("whsec_")
        assert 24 <= len(b64decode(new_secret().removeprefix("whsec_"))) <= 64

    @pytest.mark.parametrize("text", ["whsec_", "", "whsec_!", "whsec_abc", "whsec_ü"])
    def test_that_is_none_is_refused_without_quoting_it(self, text):
        with pytest.raises(ValueError, match="is 'whsec_' and then base64") as raised:
            key_of(text)
        assert text in ("", "whsec_") or text not in str(raised.value)


class TestASignature:
    def test_is_the_one_of_the_specification(self):
        """The example of the specification's own page and libraries."""
        key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        signed = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [key])
        assert signed["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    def test_is_verified_with_each_of_its_secrets(self):
        secrets = [new_secret(), new_secret()]
        present = int(datetime.now(UTC).timestamp())  # what is minutes old is refused
        signed = headers("7-1", present, BODY, [key_of(secret) for secret in secrets])
        assert all(Webhook(secret).verify(BODY, signed) == {"shard": 3} for secret in secrets)

    def test_is_another_one_for_each_message_of_one_key(self):
        key = key_of(new_secret())
        signatures = {headers(event, at, body, [key])["webhook-signature"] for event, at, body in MESSAGES}
        assert len(signatures) == len(MESSAGES)
        assert headers("a", 1, b"x", [key]) == headers("a", 1, b"x", [key])

    def test_needs_a_secret(self):
        assert headers("7-1", NOW, BODY, []) == {}


MESSAGES = (("a", 1, b"x"), ("b", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"y"))


@pytest.mark.django_db
class TestARotation:
    def test_lets_the_secret_before_sign_for_a_while_more(self):
        endpoint = make_endpoint("https://example.com/")
        first, second = rotate(endpoint, now=NOON), rotate(endpoint, keep_for=60, now=NOON)
        kept = endpoint.signing_secrets.all()
        assert keys_in_use(kept, NOON) == [key_of(second), key_of(first)]
        assert keys_in_use(kept, NOON + timedelta(seconds=60)) == [key_of(second)]

    def test_does_not_let_one_live_longer_than_it_was_to(self):
        endpoint = make_endpoint("https://example.com/")
        rotate(endpoint, now=NOON)
        rotate(endpoint, keep_for=60, now=NOON)
        third = rotate(endpoint, keep_for=3600, now=NOON + timedelta(seconds=30))
        assert len(keys_in_use(endpoint.signing_secrets.all(), NOON + timedelta(seconds=31))) == 3
        after = keys_in_use(endpoint.signing_secrets.all(), NOON + timedelta(seconds=61))
        assert len(after) == 2
        assert after[0] == key_of(third)

    def test_keeps_the_secret_sealed(self):
        secret = rotate(make_endpoint("https://example.com/"))
        row = SigningSecret.objects.get()
        assert b64encode(key_of(secret)).decode() not in row.sealed
        assert unseal(row.sealed) == secret

    def test_leaves_other_endpoints_alone(self):
        endpoint, other = make_endpoint("https://example.com/"), make_endpoint("https://example.org/")
        rotate(other, now=NOON)
        rotate(endpoint, now=NOON)
        assert other.signing_secrets.get().retires_at is None


@pytest.mark.django_db(transaction=True)
class TestTwoRotationsAtTheSameMoment:
    def test_leave_one_secret_that_does_not_retire(self):
        endpoint = make_endpoint("https://example.com/")
        secrets = at_once(lambda: rotate(endpoint), lambda: rotate(endpoint))
        assert endpoint.signing_secrets.filter(retires_at__isnull=True).count() == 1
        in_use = keys_in_use(endpoint.signing_secrets.all(), datetime.now(UTC))
        assert set(in_use) == {key_of(secret) for secret in secrets}
