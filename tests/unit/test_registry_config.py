"""How to reach a registry, and what is never shown."""
# ruff: noqa: S105, S106 - made-up passwords are what is tested

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import InvalidConfig, RegistryClient, RegistryConfig

SECRET = "p@ss/w:ö%rd,#?"


def test_credentials_are_taken_from_the_url_as_ticdc_takes_it():
    config = RegistryConfig("https://user:p%40ss@registry.example:8081/path/")
    assert config.credentials() == ("user", "p@ss")
    assert config.settings()["url"] == "https://registry.example:8081/path"
    assert config.settings()["basic.auth.user.info"] == "user:p@ss"


@given(st.text(min_size=1).filter(lambda name: ":" not in name), st.text())
def test_any_credentials_survive_url_encoding(username, password):
    config = RegistryConfig(f"http://{quote(username, safe='')}:{quote(password, safe='')}@host")
    assert config.credentials() == (username, password)


@pytest.mark.parametrize(
    ("url", "pair"),
    [
        ("http://user@host", ("user", "")),  # confluent-kafka's own reading: no credentials at all
        ("http://:token@host", ("", "token")),
        ("http://user:p@ss@host", ("user", "p@ss")),
        ("http://host", None),
        ("http://u:p@one,http://u:p@two", ("u", "p")),
    ],
)
def test_half_and_unencoded_credentials_are_what_they_look_like(url, pair):
    assert RegistryConfig(url).credentials() == pair


def test_credentials_may_stand_in_both_places_if_they_agree():
    assert RegistryConfig("http://u:p%40@host", username="u", password="p@").credentials() == ("u", "p@")
    with pytest.raises(InvalidConfig, match="different credentials"):
        RegistryConfig("http://u:p@host", username="u", password="other").credentials()
    with pytest.raises(InvalidConfig, match="different credentials"):
        RegistryConfig("http://u:p@one,http://u:q@two").credentials()


def test_a_user_name_with_a_colon_is_refused_because_the_header_could_not_be_read():
    with pytest.raises(InvalidConfig, match="colon"):
        RegistryConfig("http://host", username="a:b", password="c").settings()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:8081",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://[::1",
        "http://host/?tenant=1",
        "http://host/#a",
        "http://user:pa/ss@host",
        "http://user:pa#ss@host",
        "http://user:pa,ss@host",
        "http://one,two",
    ],
)
def test_what_is_no_address_is_refused_without_being_repeated(url):
    with pytest.raises(InvalidConfig) as refused:
        RegistryClient(RegistryConfig(url))
    assert refused.value.code == "REGISTRY_CONFIG"
    assert "URL-encoded" in refused.value.hint
    assert "pa" not in refused.value.message
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "config",
    [
        RegistryConfig("http://host", username="user", password=SECRET),
        RegistryConfig(f"http://user:{quote(SECRET, safe='')}@host"),
        RegistryConfig(f"http://user:{SECRET}@host"),
        RegistryConfig("http://host", headers={"X-Token": SECRET}),
    ],
    ids=["field", "URL", "unencoded URL", "header"],
)
def test_no_secret_is_shown(config):
    basic = base64.b64encode(f"user:{SECRET}".encode()).decode()
    for shown in (repr(config), str(config), f"{config}", config.shown_url):
        assert SECRET not in shown
        assert quote(SECRET, safe="") not in shown
        assert basic not in shown
        assert "p@ss" not in shown


def test_the_repr_shows_the_rest():
    shown = repr(RegistryConfig("http://host/api", username="user", password="x", ca_file="ca.pem"))
    assert shown == (
        "RegistryConfig(url='http://host/api', username='user', password='***', ca_file='ca.pem', "
        "cert_file=None, key_file=None, headers={}, timeout_seconds=10.0, retries=5)"
    )


def test_nothing_waits_for_ever_and_the_client_below_does_not_retry():
    settings = RegistryConfig("http://host").settings()
    assert settings["timeout"] == 10.0
    assert settings["max.retries"] == 0


def test_files_are_given_to_the_client_below_only_where_there_are_any():
    config = RegistryConfig("https://host", ca_file="ca", cert_file="cert", key_file="key")
    assert {name: value for name, value in config.settings().items() if name.startswith("ssl.")} == {
        "ssl.ca.location": "ca",
        "ssl.certificate.location": "cert",
        "ssl.key.location": "key",
    }
    assert not [name for name in RegistryConfig("https://host").settings() if name.startswith("ssl.")]


@pytest.mark.parametrize(
    "files", [{"ca_file": "nowhere.pem"}, {"key_file": "nowhere.pem"}, {"cert_file": "nowhere.pem"}]
)
def test_a_certificate_that_is_not_there_is_a_setting_to_correct(files):
    with pytest.raises(InvalidConfig) as refused:
        RegistryClient(RegistryConfig("https://host", **files))
    assert "ca_file" in refused.value.hint
