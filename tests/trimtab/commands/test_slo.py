import pytest
from click.testing import CliRunner

from trimtab.cli import main


@pytest.fixture
def cli():
    return CliRunner()


def test_the_exported_file_is_valid(cli, tmp_path):
    file = tmp_path / "objectives.yaml"
    file.write_text(cli.invoke(main, ["slo", "export"]).output)
    result = cli.invoke(main, ["slo", "validate", str(file)])
    assert result.exit_code == 0
    assert "9 valid OpenSLO documents" in result.output
    assert "ttft, tpot, overflow" in result.output


def test_a_bad_file_exits_2_with_one_sentence(cli, tmp_path):
    file = tmp_path / "objectives.yaml"
    file.write_text("apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: x}\nspec: {}\n")
    result = cli.invoke(main, ["slo", "validate", str(file)])
    assert result.exit_code == 2
    assert "spec.service" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none.yaml", "cannot be read: No such file or directory\n"),
        (".", "cannot be read: Is a directory\n"),
        ("binary.yaml", "is not UTF-8 text: byte 3 is none of it\n"),
    ],
)
def test_a_file_that_cannot_be_read_exits_2_with_its_name(cli, tmp_path, name, told):
    (tmp_path / "binary.yaml").write_bytes(b"ab\xff")
    file = tmp_path / name
    result = cli.invoke(main, ["slo", "validate", str(file)])
    assert result.exit_code == 2
    assert result.output == f"Error: OpenSLO file {file} {told}"
