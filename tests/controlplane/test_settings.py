"""Settings: one reader, environment over file, one sentence on error."""

import pytest

from controlplane.errors import InvalidInputError
from controlplane.settings import load_settings


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
        ("database_url = 'mysql://u:secret@h'", "database_url: it should begin with sqlite:///"),
        ("[governor]\npolicy = ''", "governor.policy: it should have at least 1 character"),
        ("[[engines]]\nid='a b'\nurl='http://a'", "engines.0.id: it should have only A-Z"),
    ],
)
def test_a_bad_setting_is_one_sentence_that_names_it(tmp_path, text, said):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=said) as caught:
        load_settings(tmp_path / "c.toml")
    assert "\n" not in caught.value.detail
    assert "secret" not in caught.value.detail


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_settings(tmp_path / "none.toml")


def test_secrets_do_not_print():
    settings = load_settings(auth={"admin_token": "geheim"})
    assert "geheim" not in repr(settings)


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("TRIMTAB_PROT", "TRIMTAB_PORT"),
        ("TRIMTAB_HISTORY__RING_FRAME", "TRIMTAB_HISTORY__RING_FRAMES"),
        ("TRIMTAB_DATABASE", "TRIMTAB_DATABASE_URL"),
        ("TRIMTAB_INFERENCE_TOKE", "TRIMTAB_INFERENCE_TOKEN"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_known_one(monkeypatch, variable, near):
    monkeypatch.setenv(variable, "geheim")
    with pytest.raises(InvalidInputError) as caught:
        load_settings()
    sentence = f"environment variable {variable} is not a setting; did you mean {near}?"
    assert caught.value.detail == sentence
    assert caught.value.field == variable


@pytest.mark.parametrize(
    "variable",
    ["TRIMTAB_ENGINE_PORT", "TRIMTAB_INFERENCE_TOKEN", "TRIMTAB_TOKEN", "TRIMTABULAR", "TRIMTAB"],
)
def test_variables_of_other_programs_are_left_alone(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    assert load_settings().port == 8700


def test_collections_are_given_as_json_or_by_name(monkeypatch):
    monkeypatch.setenv("TRIMTAB_ENGINES", '[{"id": "e0", "url": "http://a"}]')
    monkeypatch.setenv("TRIMTAB_GOVERNOR__ALERTS__Mine", "fast")
    settings = load_settings()
    assert [engine.id for engine in settings.engines] == ["e0"]
    assert "fast" in settings.governor.alerts.values()


def test_a_misspelt_setting_of_an_engine_in_the_file_names_the_nearest(tmp_path):
    (tmp_path / "c.toml").write_text("[[engines]]\nid='a'\nurl='http://a'\nadmin_tokn='x'")
    with pytest.raises(InvalidInputError, match="did you mean admin_token") as caught:
        load_settings(tmp_path / "c.toml")
    assert caught.value.field == "engines.0.admin_tokn"
