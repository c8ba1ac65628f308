from pathlib import Path

import pytest

from engine.config import REFERENCE_CHECKPOINT
from engine.errors import CheckpointError
from engine.model.tokenizer import Tokenizer

TEXT = "def naïve():\n\treturn '€ 🙂'  # 日本\x00\x7f"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(REFERENCE_CHECKPOINT)


def test_token_ids_of_the_reference_are_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(TEXT) == tuple(TEXT.encode())
    assert tokenizer.decode(list(TEXT.encode())) == TEXT


def test_specials_vanish_from_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([256, 65, 257, 258]) == "A"


def test_a_stream_gives_whole_characters(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in tokenizer.encode(TEXT)]
    assert "".join(pieces) + stream.flush() == TEXT
    assert all("\ufffd" not in piece for piece in pieces)


def test_a_broken_character_comes_out_as_replacement_in_the_end(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in (0xE2, 0x82, 65, 66)]
    text = "".join(pieces) + stream.flush()
    assert text.endswith("AB")
    assert "\ufffd" in text


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is absent"):
        Tokenizer(tmp_path)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is not a tokenizer"):
        Tokenizer(tmp_path)
