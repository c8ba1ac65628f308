"""Files that commands write replace nothing unasked, and are whole or not there."""

import os
from pathlib import Path

import pytest

from trimtab.errors import InputError
from trimtab.generated import write_files
from trimtab.output_file import output_file, write_output, write_private


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_written(tmp_path):
    write_output(tmp_path / "a.json", "é", "--json")
    assert (tmp_path / "a.json").read_text("utf-8") == "é"
    assert _left(tmp_path) == ["a.json"]


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("old")
    with pytest.raises(InputError, match=r"--json .*a\.json is there already.*--force"):
        write_output(file, "new", "--json")
    assert file.read_text() == "old"
    write_output(file, "new", "--json", force=True)
    assert file.read_text() == "new"


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling", "folder"])
@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_regular_file_is_never_replaced(tmp_path, kind, force):
    (tmp_path / "target").write_text("kept")
    path = tmp_path / "out"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / ("target" if kind == "link" else "nowhere"))
    before = path.lstat()
    with pytest.raises(InputError, match="is no regular file"):
        write_output(path, "new", "--out", force=force)
    assert path.lstat() == before
    assert (tmp_path / "target").read_text() == "kept"
    assert _left(tmp_path) == ["out", "target"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "names no file"), ("nowhere/a", "there is no folder"), ("a" * 300, "name too long"),
     ("file/a", "Not a directory"), ("a\0b", "null")],
)  # fmt: skip
def test_a_name_that_cannot_be_written_is_named(tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InputError) as caught:
        write_output(Path(name), "x", "--out")
    assert said in caught.value.message
    assert "--out" in caught.value.message
    assert _left(tmp_path) == ["file"]


def test_a_failure_leaves_nothing(tmp_path):
    def fails():
        with output_file(tmp_path / "a", "--out") as unfinished:
            unfinished.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"--out .*/a cannot be written: No space left"):
        fails()
    assert _left(tmp_path) == []


def test_what_took_the_name_meanwhile_is_kept(tmp_path):
    def late():
        with output_file(tmp_path / "a", "--out") as unfinished:
            unfinished.write_text("new")
            (tmp_path / "a").write_text("theirs")

    with pytest.raises(InputError, match="is there already"):
        late()
    assert (tmp_path / "a").read_text() == "theirs"
    assert _left(tmp_path) == ["a"]


def test_a_private_file_is_its_owners_alone(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o644)
    write_private(tmp_path / "a", "secret", "--folder")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").read_text() == "secret"


def test_generated_files_replace_their_like_and_follow_no_link(tmp_path):
    folder = tmp_path / "generated"
    write_files({"a.json": "1"}, folder)
    write_files({"a.json": "2"}, folder)
    assert (folder / "a.json").read_text() == "2"
    (tmp_path / "target").write_text("kept")
    (folder / "b.json").symlink_to(tmp_path / "target")
    with pytest.raises(InputError, match="is no regular file"):
        write_files({"b.json": "3"}, folder)
    assert (tmp_path / "target").read_text() == "kept"
    with pytest.raises(InputError, match="cannot be made"):
        write_files({"a.json": "1"}, tmp_path / "target" / "deeper")
