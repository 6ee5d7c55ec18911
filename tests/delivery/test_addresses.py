from ipaddress import ip_address

import pytest
from django.core.exceptions import ImproperlyConfigured

from delivery.addresses import AddressRefused, allowed, read, refuse_addresses
from delivery.addresses import problem_with as problem
from external.public import is_public


class TestAUrl:
    @pytest.mark.parametrize(
        "url",
        [
            *("https://example.com", "https://example.com/hooks/backup?tenant=7", "http://example.com:8080/"),
            *("https://EXAMPLE.com./", "https://bücher.example/", "https://8.8.8.8/", "https://[2606:4700::1111]/"),
        ],
    )
    def test_that_is_public_has_no_problem(self, url):
        assert problem(url) == ""

    @pytest.mark.parametrize(
        ("url", "error"),
        [
            ("file:///etc/passwd", "not with 'file'"),
            ("http:///hook", "names no host"),
            ("http://user:word@example.com/", "user name or password"),
            ("http://example.com@127.0.0.1/", "user name or password"),
            ("http://example.com:0/", "port 0"),
            ("http://example.com:99999/", "not a URL"),
            ("http://example.com:port/", "not a URL"),
            ("http://exa mple.com/", "spaces or backslashes"),
            ("http://example.com\\@127.0.0.1/", "spaces or backslashes"),
            ("http://example.com/\r\nHost: other", "spaces or backslashes"),
            ("http://example.com/" + "x" * 2000, "longer than 2000"),
            ("http://ex%61mple.com/", "not a host name"),
            ("http://" + "a." * 130 + "example/", "no"),
            ("http://[::1/", "not a URL"),
            ("http://[2606:4700::1111%25lo]/", "with a zone"),
            ("http://[fe80::1%eth0]/", "zone"),
        ],
    )
    def test_that_cannot_be_delivered_to_says_why(self, url, error):
        assert error in problem(url)

    @pytest.mark.parametrize("url", ["", "example.com/hook"])
    def test_without_a_scheme_says_how_one_begins(self, url):
        assert problem(url) == "a URL begins with http:// or https://"

    def test_is_known_by_its_origin_only_and_with_a_password_not_quoted(self):
        assert read("https://Example.COM./hooks/secret?token=1#part").origin == "https://example.com:443"
        assert read("http://[2606:4700::1111]:81/").origin == "http://[2606:4700::1111]:81"
        assert "hunter2" not in problem("http://user:hunter2@example.com/") + problem("http://user:hunter2@[bad/")


class TestAnAddressOfOurOwnNetworks:
    @pytest.mark.parametrize(
        "host",
        [
            *("127.0.0.1", "127.255.1.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
            *("192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
            *("198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.0.2.1", "192.88.99.1"),
            *("[::1]", "[::]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]"),
            *("[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]"),
            *("[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:4136:e378::1]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]"),
            *("localhost", "LOCALHOST.", "a.localhost", "ⓛocalhost", "127。0。0。1", "①②⑦.⓪.⓪.①"),
        ],
    )
    def test_is_refused(self, host):
        assert "CALLBACKS_ALLOWED" in problem(f"http://{host}/")

    @pytest.mark.parametrize(
        "host",
        [
            *("2130706433", "0x7f000001", "0x7f.1", "127.1", "017700000001", "0177.0.0.1", "127.0.0.1.", "0"),
            *("1.2.3.4.5", "0x", "example.0x7f", "1.1.1.1.", "3232235777"),
        ],
    )
    def test_in_another_form_is_refused_for_its_form(self, host):
        assert "is a number that may mean any address" in problem(f"http://{host}/")


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "2a00::1", "64:ff9b::808:808", "::ffff:8.8.8.8"],
)
def test_a_public_address_is_public(address):
    assert is_public(ip_address(address))


class TestWhatIsAllowed:
    def test_a_network_lets_its_addresses_through_and_no_others(self, allow):
        allow("10.1.0.0/16", "::1")
        assert not any(problem(f"http://{host}/") for host in ("10.1.2.3", "[::1]:8000", "[::ffff:10.1.2.3]"))
        assert problem("http://10.2.0.1/")
        assert problem("http://[64:ff9b::a01:203]/")

    def test_an_exact_name_lets_that_host_through_and_no_part_of_it(self, allow):
        allow("localhost", "Hooks.Internal.")
        assert problem("http://localhost:8000/") == problem("http://LOCALHOST./") == ""
        assert problem("http://a.localhost/")
        assert problem("http://127.0.0.1/")
        assert allowed().names == {"localhost", "hooks.internal"}

    def test_neither_a_wide_network_nor_a_name_lets_a_metadata_service_through(self, allow):
        allow("0.0.0.0/0", "100.64.0.0/10", "fd00::/8", "hooks.internal", "169.254.7.0/24")
        for address in ("169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254"):
            assert problem(f"http://[{address}]/" if ":" in address else f"http://{address}/"), address
            with pytest.raises(AddressRefused):
                refuse_addresses("hooks.internal", [address])
        refuse_addresses("hooks.internal", ["10.0.0.1"])
        assert problem("http://169.254.7.9/") == ""

    @pytest.mark.parametrize("entry", ["10.0.0.0/99", "hooks/8", "http://localhost", "*.internal"])
    def test_an_entry_that_is_neither_says_so(self, allow, entry):
        allow(entry)
        with pytest.raises(ImproperlyConfigured, match="neither a network"):
            problem("http://127.0.0.1/")
