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


def test_a_missing_file_exits_2(cli, tmp_path):
    assert cli.invoke(main, ["slo", "validate", str(tmp_path / "none.yaml")]).exit_code == 2
