import pytest

from delivery.encryption import Unsealable, seal, unseal


class TestASealedText:
    @pytest.mark.parametrize("text", ["Bearer abc", "ü\n\0€", "x" * 5000, ""])
    def test_is_read_again(self, text):
        assert unseal(seal(text)) == text

    def test_does_not_tell_what_it_is(self):
        assert "Bearer" not in seal("Bearer abc")
        assert seal("Bearer abc") != seal("Bearer abc")

    def test_is_read_while_its_key_is_a_fallback(self, settings):
        settings.SECRET_KEY = "old"
        sealed = seal("Bearer abc")
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["older", "old"]
        assert unseal(sealed) == "Bearer abc"
        settings.SECRET_KEY_FALLBACKS = []
        with pytest.raises(Unsealable, match="all hosts the same SECRET_KEY"):
            unseal(sealed)

    def test_is_sealed_with_the_present_key(self, settings):
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
        sealed = seal("Bearer abc")
        settings.SECRET_KEY_FALLBACKS = []
        assert unseal(sealed) == "Bearer abc"

    def test_is_read_as_long_as_the_purpose_of_its_key_stays(self, settings):
        """What installations have sealed must open in later versions, too."""
        settings.SECRET_KEY = "a key of 2026"
        assert unseal(SEALED_IN_2026) == "Bearer abc"

    @pytest.mark.parametrize("rubbish", ["rubbish", "gAAAAA", "ü"])
    def test_that_is_none_says_what_to_do_and_quotes_nothing(self, rubbish):
        with pytest.raises(Unsealable) as raised:
            unseal(rubbish)
        assert rubbish not in str(raised.value)
        assert raised.value.__suppress_context__


SEALED_IN_2026 = "gAAAAABrAfS3z_mgYSf_1Q8wSFyUDSgipWKdI4f59YfXWJyY3Z4JDehz2ENFZvOg7wvsO_D0SEEjSmioStuDiPCpGgF_yEnbXw=="
