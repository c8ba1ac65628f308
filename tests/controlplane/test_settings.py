"""Settings: one reader, environment over file, one sentence on error."""

import pytest

from controlplane.errors import InvalidInputError
from controlplane.settings import is_loopback, load_settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_defaults_listen_on_loopback_with_sqlite():
    settings = load_settings()
    assert settings.host == "127.0.0.1"
    assert settings.database_url.startswith("sqlite:///")


def test_the_environment_wins_over_the_file(tmp_path, monkeypatch):
    file = tmp_path / "c.toml"
    file.write_text('port = 1\n[history]\nring_frames = 120\n[[engines]]\nid="e0"\nurl="http://a"')
    monkeypatch.setenv("TRIMTAB_PORT", "2")
    settings = load_settings(file)
    assert settings.port == 2
    assert settings.history.ring_frames == 120
    assert [engine.id for engine in settings.engines] == ["e0"]


def test_the_file_is_named_by_the_environment_or_found_in_the_directory(tmp_path, monkeypatch):
    (tmp_path / "trimtab.toml").write_text("port = 3")
    assert load_settings().port == 3
    (tmp_path / "other.toml").write_text("port = 4")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings().port == 4


def test_nested_names_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("TRIMTAB_HISTORY__RING_FRAMES", "60")
    assert load_settings().history.ring_frames == 60


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "prot"),
        ("port = 70000", "port"),
        ("port = [", "c.toml"),
        ('host = "0.0.0.0"', "loopback"),
        ("[[engines]]\nid='a'\nurl='http://a'\n[[engines]]\nid='a'\nurl='http://b'", "twice"),
        ("[[engines]]\nid='a'\nurl='ftp://a'", "engines.0.url"),
        ("tls_key = 'k.pem'", "together"),
    ],
)
def test_a_bad_setting_is_one_sentence_that_names_it(tmp_path, text, said):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=said) as caught:
        load_settings(tmp_path / "c.toml")
    assert "\n" not in caught.value.detail


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_settings(tmp_path / "none.toml")


def test_secrets_do_not_print():
    settings = load_settings(auth={"admin_token": "geheim"})
    assert "geheim" not in repr(settings)


def test_loopback():
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
