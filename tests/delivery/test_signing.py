import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from delivery.signing import headers, key_of, keys_in_use, new_secret, rotate
from sealing.encryption import Unsealable, seal, unseal
from tests.delivery.events import make_endpoint
from tests.factories import NOON
from tests.threads import at_once

BODY = json.dumps({"shard": 3}).encode()


class TestASealedText:
    @pytest.mark.parametrize("text", ["Bearer abc", "ü\n\0€", "x" * 5000, ""])
    def test_is_read_again_and_shows_nothing(self, text):
        sealed = seal(text)
        assert unseal(sealed) == text
        assert not text or (sealed != seal(text) and text not in sealed)

    def test_is_read_with_the_key_that_sealed_it_while_that_is_known(self, settings):
        """A text that an installation sealed: it must open in later versions, too."""
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["older", "a key of 2026"]
        new = seal("Bearer abc")
        assert unseal(SEALED_IN_2026) == "Bearer abc"
        settings.SECRET_KEY_FALLBACKS = []
        assert unseal(new) == "Bearer abc"
        with pytest.raises(Unsealable, match="all hosts the same SECRET_KEY"):
            unseal(SEALED_IN_2026)

    @pytest.mark.parametrize("rubbish", ["rubbish", "gAAAAA", "ü"])
    def test_that_is_none_says_what_to_do_and_quotes_nothing(self, rubbish):
        with pytest.raises(Unsealable) as raised:
            unseal(rubbish)
        assert rubbish not in str(raised.value)
        assert raised.value.__suppress_context__


SEALED_IN_2026 = "gAAAAABrAfS3z_mgYSf_1Q8wSFyUDSgipWKdI4f59YfXWJyY3Z4JDehz2ENFZvOg7wvsO_D0SEEjSmioStuDiPCpGgF_yEnbXw=="


@pytest.mark.parametrize("text", ["whsec_", "", "whsec_!", "whsec_abc", "whsec_ü"])
def test_what_is_no_secret_is_refused_without_quoting_it(text):
    with pytest.raises(ValueError, match="is 'whsec_' and then base64") as raised:
        key_of(text)
    assert text in ("", "whsec_") or text not in str(raised.value)


class TestASignature:
    def test_is_the_one_of_the_specification(self):
        """The example of the specification's own page and libraries."""
        key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        signed = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [key])
        assert signed["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    def test_is_verified_with_each_of_its_secrets_and_needs_one(self):
        secrets = [new_secret(), new_secret()]
        present = int(datetime.now(UTC).timestamp())  # what is minutes old is refused
        signed = headers("7-1", present, BODY, [key_of(secret) for secret in secrets])
        assert all(Webhook(secret).verify(BODY, signed) == {"shard": 3} for secret in secrets)
        assert headers("7-1", present, BODY, []) == {}

    def test_is_another_one_for_each_message_of_one_key(self):
        key, messages = key_of(new_secret()), (("a", 1, b"x"), ("b", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"y"))
        assert len({headers(*message, [key])["webhook-signature"] for message in messages}) == len(messages)
        assert headers("a", 1, b"x", [key]) == headers("a", 1, b"x", [key])


@pytest.mark.django_db
def test_a_rotation_lets_each_secret_before_sign_for_a_while_more_and_no_longer_than_it_was_to():
    endpoint, other = make_endpoint("https://example.com/"), make_endpoint("https://example.org/")
    rotate(other, now=NOON)
    first, second = rotate(endpoint, now=NOON), rotate(endpoint, keep_for=60, now=NOON)
    third = rotate(endpoint, keep_for=3600, now=NOON + timedelta(seconds=30))
    keys = [key_of(secret) for secret in (third, second, first)]
    assert {24 <= len(key) <= 64 for key in keys} == {True}, "the specification wants this many bytes"
    kept = endpoint.signing_secrets.all()
    assert keys_in_use(kept, NOON + timedelta(seconds=31)) == keys
    assert keys_in_use(kept, NOON + timedelta(seconds=61)) == keys[:2]
    assert other.signing_secrets.get().retires_at is None
    assert [unseal(row.sealed) for row in kept] == [first, second, third]
    assert not [row for row in kept if row.sealed == unseal(row.sealed)]


@pytest.mark.django_db
def test_the_newest_secret_signs_first_whatever_the_clocks_of_those_who_rotate():
    endpoint = make_endpoint("https://example.com/")
    ahead, right = rotate(endpoint, now=NOON + timedelta(hours=1)), rotate(endpoint, now=NOON)
    assert keys_in_use(endpoint.signing_secrets.all(), NOON) == [key_of(right), key_of(ahead)]


@pytest.mark.django_db(transaction=True)
def test_two_rotations_at_the_same_moment_leave_one_secret_that_does_not_retire():
    endpoint = make_endpoint("https://example.com/")
    secrets = at_once(lambda: rotate(endpoint), lambda: rotate(endpoint))
    assert endpoint.signing_secrets.filter(retires_at__isnull=True).count() == 1
    in_use = keys_in_use(endpoint.signing_secrets.all(), datetime.now(UTC))
    assert set(in_use) == {key_of(secret) for secret in secrets}
