from pathlib import Path

import pytest

from engine.errors import BadRequestError
from engine.server.auth import TokenBook
from engine.server.tokens import Role, create_token, find_token, read_tokens


def test_a_token_is_kept_as_its_hash_only(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = create_token(file, name="cp", role=Role.OPERATOR)
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    record = find_token(read_tokens(file), token)
    assert record is not None
    assert (record.name, record.role) == ("cp", Role.OPERATOR)
    assert find_token(read_tokens(file), token + "x") is None


def test_tokens_are_added_and_names_are_unique(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    first = create_token(file, name="a", role=Role.VIEWER)
    second = create_token(file, name="b", role=Role.ADMIN)
    assert first != second
    assert [record.name for record in read_tokens(file)] == ["a", "b"]
    with pytest.raises(BadRequestError, match="already has a token called 'a'"):
        create_token(file, name="a", role=Role.ADMIN)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "body: Invalid JSON"),
        ('{"tokens": [{"name": "a", "role": "root", "sha256": ""}]}', "tokens.0.role"),
        (
            '{"tokens": [{"name": "a", "role": "admin", "sha256": "plain"}]}',
            "tokens.0.sha256: it should",
        ),
    ],
    ids=["empty", "role", "plain"],
)
def test_a_bad_token_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(BadRequestError, match=sentence):
        read_tokens(file)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="cannot be read: No such file"):
        TokenBook(tmp_path / "none.json")


def test_inference_is_apart_from_the_admin_roles(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    for role in Role:
        create_token(file, name=role.value, role=role)
    allowed = {
        record.role: {role for role in Role if record.allows(role)} for record in read_tokens(file)
    }
    assert allowed == {
        Role.INFERENCE: {Role.INFERENCE},
        Role.VIEWER: {Role.VIEWER},
        Role.OPERATOR: {Role.VIEWER, Role.OPERATOR},
        Role.ADMIN: set(Role),
    }


def test_a_revoked_token_is_refused_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = create_token(file, name="a", role=Role.ADMIN)
    book = TokenBook(file)
    assert find_token(book.records(), token) is not None
    file.write_text('{"tokens": []}')
    assert find_token(book.records(), token) is None


def test_a_file_that_became_unreadable_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = create_token(file, name="a", role=Role.ADMIN)
    book = TokenBook(file)
    file.write_text("oops")
    assert find_token(book.records(), token) is None
    file.unlink()
    assert book.records() == ()
    other = create_token(file, name="a", role=Role.ADMIN)
    assert find_token(book.records(), other) is not None
