from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.errors import BadRequestError
from engine.server.settings import EngineSettings, read_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defaults_are_those_of_the_engine_config() -> None:
    assert EngineSettings().engine_config() == EngineConfig()


def test_flags_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "e.toml"
    file.write_text('ranks = 3\nport = 1\nengine_id = "from-file"\n[runtime]\nchunk_size = 256\n')
    monkeypatch.setenv("TRIMTAB_ENGINE_PORT", "2")
    monkeypatch.setenv("TRIMTAB_ENGINE_RANKS", "4")
    settings = read_settings(file, ranks=5)
    assert (settings.ranks, settings.port, settings.engine_id) == (5, 2, "from-file")
    assert settings.runtime.chunk_size == 256
    assert settings.runtime.max_concurrency == 64


def test_a_knob_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_ENGINE_RUNTIME__CAPACITY_FACTOR", "1.50")
    monkeypatch.setenv("TRIMTAB_ENGINE_FAULTS", '["bias-ramp"]')
    settings = read_settings()
    assert settings.runtime.capacity_factor == "1.5"
    assert settings.engine_config().faults == frozenset({"bias-ramp"})


def test_the_file_of_the_working_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "trimtab-engine.toml").write_text("ranks = 7\n")
    assert read_settings().ranks == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rnks = 3", "setting rnks does not exist; did you mean ranks?"),
        ("ranks = 0", "setting ranks: it should be greater than or equal to 1, not "),
        ("ranks =", "settings file"),
        ('role = "both"', "setting role: it should be 'mixed', 'prefill' or 'decode', not 'both'"),
        ("[runtime]\nchunk_size = 3", "setting runtime.chunk_size: chunk_size 3 is not allowed"),
        ('host = "0.0.0.0"', "host '0.0.0.0' is not loopback"),
        ('tls_key = "x.pem"', "tls_certificate and tls_key are set together"),
        ("context_tokens = 100000", "over kv_blocks × block_tokens 16384"),
        ('telemetry_url = "ftp://x"', "setting telemetry_url"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "e.toml"
    file.write_text(text)
    with pytest.raises(BadRequestError) as caught:
        read_settings(file)
    assert sentence in caught.value.detail
    assert "\n" not in caught.value.detail or "settings file" in sentence


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match=r"nowhere\.toml cannot be read: No such file"):
        read_settings(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("variable", "near"),
    [("TRIMTAB_ENGINE_RANKZ", "TRIMTAB_ENGINE_RANKS"),
     ("TRIMTAB_ENGINE_RUNTIME__CHUNKSIZE", "TRIMTAB_ENGINE_RUNTIME__CHUNK_SIZE")],
)  # fmt: skip
def test_a_misspelt_variable_is_refused_with_the_nearest_known_one(
    monkeypatch: pytest.MonkeyPatch, variable: str, near: str
) -> None:
    monkeypatch.setenv(variable, "3")
    with pytest.raises(BadRequestError) as caught:
        read_settings()
    sentence = f"environment variable {variable} is not a setting; did you mean {near}?"
    assert caught.value.detail == sentence


def test_the_variables_of_the_control_plane_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_PROT", "3")
    monkeypatch.setenv("TRIMTAB_ENGINES", "[]")
    assert read_settings().port == 8100


def test_metrics_are_open_on_loopback_only_unless_said() -> None:
    assert EngineSettings().metrics_are_open
    assert not EngineSettings(host="0.0.0.0", insecure=True).metrics_are_open
    assert EngineSettings(host="0.0.0.0", insecure=True, open_metrics=True).metrics_are_open


def test_the_url_says_how_to_reach_it() -> None:
    assert EngineSettings(host="::1", port=9).url == "http://[::1]:9"


def test_a_telemetry_token_is_not_shown() -> None:
    settings = EngineSettings.model_validate({"telemetry_token": "hush"})
    assert "hush" not in repr(settings)
    assert settings.engine_config().telemetry_token == "hush"
