"""Codes and tokens: single use, expiry, rotation, revocation; and that only digests are stored."""

import hashlib
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError, transaction
from pytest_django import DjangoAssertNumQueries

from sources.agents import tokens
from sources.models import AgentToken, EnrolmentCode
from tests.commands import command
from tests.factories import NOON, everything_stored
from tests.sources.factories import make_source
from tests.threads import another_connection, at_once, impatience

SECOND = timedelta(seconds=1)


@pytest.mark.django_db
class TestToken:
    def test_it_speaks_for_its_source_and_unknown_revoked_and_malformed_ones_take_the_same_one_query(
        self, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        source, other = make_source(), make_source()
        text, revoked = tokens.issue(source), tokens.issue(other)
        agent = tokens.authenticate(text)
        assert agent is not None
        assert agent.source == source
        assert text.startswith("bsa_")
        assert len(text) >= 4 + 43  # 256 bits
        tokens.revoke(other)
        odd = ("", "bsa_", "x" * 100_000, "\0", "ÿ", "\ud800", "' OR 1=1 --")
        for none in (revoked, "bsa_" + "A" * 43, *odd):
            with django_assert_num_queries(0):  # but the look-up
                assert tokens.authenticate(none) is None

    def test_its_use_is_written_down_at_most_once_an_hour(self) -> None:
        text = tokens.issue(make_source())
        tokens.authenticate(text, NOON)
        tokens.authenticate(text, NOON + timedelta(minutes=59))
        assert AgentToken.objects.get().used_at == NOON
        tokens.authenticate(text, NOON + timedelta(hours=1))
        assert AgentToken.objects.get().used_at == NOON + timedelta(hours=1)
        tokens.authenticate(text, NOON)
        assert AgentToken.objects.get().used_at == NOON, "it was of a clock that was ahead"


@pytest.mark.django_db
class TestRotation:
    def test_the_older_token_ends_when_the_newer_one_is_first_used(self) -> None:
        other, old = tokens.issue(make_source()), tokens.issue(make_source())
        first = AgentToken.objects.order_by("pk")[1]
        lost, new = tokens.rotate(first), tokens.rotate(first)  # the answer with the first one was lost
        assert tokens.authenticate(old)
        assert tokens.authenticate(old), "it stays valid while the new one is unused"
        assert tokens.authenticate(new)
        assert tokens.authenticate(old) is tokens.authenticate(lost) is None
        assert tokens.authenticate(new)
        assert tokens.authenticate(other)


@pytest.mark.django_db
class TestRevocation:
    def test_it_ends_all_tokens_and_codes_of_the_source_only(self) -> None:
        source, other = make_source(), make_source()
        ended = [tokens.issue(source), tokens.issue(source)]
        code, stays = tokens.make_code(source), tokens.issue(other)
        assert tokens.revoke(source) == 2
        assert tokens.revoke(source) == 0
        assert [tokens.authenticate(text) for text in ended] == [None, None]
        with pytest.raises(tokens.CredentialRefused):
            tokens.redeem(code)
        assert tokens.authenticate(stays)
        with pytest.raises(tokens.CredentialRefused):  # no other follows one that is revoked
            tokens.rotate(AgentToken.objects.filter(source=source)[0])
        assert AgentToken.objects.filter(source=source).count() == 2


@pytest.mark.django_db
class TestCode:
    def test_it_has_eighty_bits_in_groups_that_can_be_read_aloud(self) -> None:
        code = tokens.make_code(source := make_source())
        groups = code.split("-")
        assert [len(group) for group in groups] == [4, 4, 4, 4]
        assert set("".join(groups)) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        assert len({tokens.make_code(source) for _ in range(50)}) == 50

    def test_case_dashes_spaces_and_letters_like_digits_do_not_matter(self) -> None:
        source = make_source()
        EnrolmentCode.objects.create(
            source=source, digest=hashlib.sha256(b"01AB01AB01AB01AB").hexdigest(), expires_at=NOON + SECOND
        )
        found, _ = tokens.redeem(" oiab-OLab 0lab–01ab".replace("–", ""), NOON)
        assert found == source

    def test_it_works_once_until_it_expires(self) -> None:
        source = make_source()
        used, expired = tokens.make_code(source, 60, NOON), tokens.make_code(source, 60, NOON)
        tokens.redeem(used, NOON + 59 * SECOND)
        for code, instant in ((used, NOON + 59 * SECOND), (expired, NOON + 60 * SECOND), ("K7QP", NOON), ("", NOON)):
            with pytest.raises(tokens.CredentialRefused) as caught:
                tokens.redeem(code, instant)
            assert str(caught.value) == ""
        assert AgentToken.objects.count() == 1

    def test_a_new_one_leaves_open_ones_and_deletes_the_others(self) -> None:
        source = make_source()
        tokens.make_code(source, 60, NOON)
        tokens.redeem(tokens.make_code(source, 600, NOON), NOON)
        still_open = tokens.make_code(source, 600, NOON)
        tokens.make_code(source, 600, NOON + 61 * SECOND)
        assert EnrolmentCode.objects.count() == 2
        tokens.redeem(still_open, NOON + 61 * SECOND)


@pytest.mark.django_db
class TestSecrecy:
    def test_neither_token_nor_code_is_anywhere_in_the_database_or_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        source = make_source(name="marker-of-this-source")
        code = tokens.make_code(source)
        _, token = tokens.redeem(code)
        tokens.authenticate(token)
        rotated = tokens.rotate(AgentToken.objects.get())
        stored = everything_stored()
        assert "marker-of-this-source" in stored
        assert hashlib.sha256(token.encode()).hexdigest() in stored
        for secret in (token, rotated, code, code.replace("-", "")):
            assert secret not in stored
            assert secret not in "\n".join(
                record.getMessage() for record in caplog.records if record.name != "django.db.backends"
            )


@pytest.mark.django_db(transaction=True)
class TestAtTheSameMoment:
    def test_of_two_that_redeem_one_code_one_gets_a_token(self) -> None:
        for _ in range(5):
            code = tokens.make_code(make_source())

            def redeem(code: str = code) -> str | None:
                try:
                    return tokens.redeem(code)[1]
                except tokens.CredentialRefused:
                    return None

            got = at_once(*[redeem] * 4)
            assert len([text for text in got if text]) == 1
        assert AgentToken.objects.count() == 5

    def test_a_second_redeem_waits_for_the_first_and_finds_the_code_used(self) -> None:
        source = make_source()
        code = tokens.make_code(source)
        with another_connection() as other:
            other.execute("UPDATE sources_enrolmentcode SET used_at = now() WHERE source_id = %s", [source.pk])
            with impatience(0.1), pytest.raises(OperationalError, match="lock timeout"):
                tokens.redeem(code)
            other.commit()
        with pytest.raises(tokens.CredentialRefused):
            tokens.redeem(code)

    def test_a_code_whose_exchange_was_rolled_back_still_works(self) -> None:
        code = tokens.make_code(make_source())
        with transaction.atomic():
            tokens.redeem(code)
            transaction.set_rollback(True)
        assert tokens.redeem(code)

    def test_what_makes_or_ends_tokens_and_codes_of_a_source_comes_one_after_the_other(self) -> None:
        source = make_source()
        tokens.issue(source)
        token, code = AgentToken.objects.get(), tokens.make_code(source)
        actions: list[Callable[[], object]] = [
            lambda: tokens.issue(source),
            lambda: tokens.rotate(token),
            lambda: tokens.make_code(source),
            lambda: tokens.redeem(code),
            lambda: tokens.revoke(source),
        ]
        with another_connection() as other:
            other.execute("SELECT 1 FROM sources_source WHERE id = %s FOR UPDATE", [source.pk])
            for action in actions:
                with impatience(0.1), pytest.raises(OperationalError, match="lock timeout"):
                    action()
        assert AgentToken.objects.filter(revoked_at=None).count() == 1
        assert EnrolmentCode.objects.filter(used_at=None).count() == 1


@pytest.mark.django_db
def test_a_code_is_made_for_an_address_that_agents_can_call_only() -> None:
    run, refused = command("sources enrol")
    source = make_source()
    for url in ("notaurl", "ftp://host/", "https://", "https://host/?q", "https://a b/", "https://host:99999/"):
        assert "is not the address of a web server" in refused(source.name, "--url", url, code=None)
    assert "enrol https://host:8443/backups/ " in run(source.name, "--url", "https://host:8443/backups/")
