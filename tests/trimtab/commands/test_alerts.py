from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from trimtab.cli import main


def test_holds_and_runbooks_of_an_installation_reach_the_rules(tmp_path: Path):
    arguments = ["--out", str(tmp_path), "--hold", "MoeBiasDrift=2m", "--runbooks", "https://wiki"]
    built = CliRunner().invoke(main, ["alerts", "build", *arguments])
    assert built.exit_code == 0, built.output
    groups = yaml.safe_load((tmp_path / "trimtab.rules.yaml").read_text())["groups"]
    (drift,) = (r for g in groups for r in g["rules"] if r.get("alert") == "MoeBiasDrift")
    assert drift["for"] == "2m"
    assert drift["annotations"]["runbook_url"] == "https://wiki#moebiasdrift"


@pytest.mark.parametrize(
    ("hold", "sentence"),
    [
        ("MoeBiasDrift", "is not ALERT=DURATION"),
        ("MoeBiasDrift=soon", "is not ALERT=DURATION"),
        ("Unheard=2m", "no alert is called 'Unheard'"),
    ],
)
def test_a_wrong_hold_is_one_sentence_and_exit_2(tmp_path: Path, hold: str, sentence: str):
    built = CliRunner().invoke(
        main, ["alerts", "build", "--out", str(tmp_path), "--hold", hold]
    )  # fmt: skip
    assert built.exit_code == 2
    assert sentence in built.output
    assert not list(tmp_path.iterdir())
