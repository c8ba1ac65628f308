"""`trimtab backtest`: a scenario through a policy, and one sentence on bad input."""

import json

import httpx
import pytest
from click.testing import CliRunner

from engine.simulation import scenario as scenarios
from trimtab.commands.backtest import command
from trimtab.errors import InputError
from trimtab.simulated.stored import read_history

SHORT = """
title = "A jump of one layer's bias"
seconds = 1200.0
warm_seconds = 400.0
[engine]
layers = 1
[[events]]
kind = "bias_noise"
at = 600.0
spread = 0.08
[truth]
onset = 600.0
end = 1200.0
causes = ["bias"]
knobs = ["router_bias"]
"""


def test_a_scenario_file_is_replayed_beside_both_baselines(tmp_path):
    (tmp_path / "jump.toml").write_text(SHORT)
    report = tmp_path / "report.json"
    flags = ["--scenario", str(tmp_path / "jump.toml"), "--json", str(report)]
    result = CliRunner().invoke(command, flags)
    assert result.exit_code == 0, result.output
    assert "simulated snapshots" in result.output
    assert "assumed: latencies are as recorded" in result.output
    body = json.loads(report.read_text())
    assert body["policy"]["delays"]["jump"] is not None
    assert body["never"]["actions"] == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "either --scenario NAME or --history URL"),
        (["--scenario", "nope"], "scenario 'nope' is unknown"),
        (["--scenario", "slow-rank", "--policy", "nope"], "Policy 'nope' is no file"),
    ],
)
def test_bad_input_exits_2_with_one_sentence(flags, words):
    result = CliRunner().invoke(command, flags)
    assert result.exit_code == 2
    assert words in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff", "is not UTF-8 text"),
        (b"a: [\nb: }", "policy is not YAML: expected the node content, but found '}' (line 2"),
        (b"port = 8700", "policy must be a mapping"),
        (b"format: 1", "policy field name: Field required\n"),
    ],
)
def test_a_file_that_is_no_policy_is_named_in_one_sentence(tmp_path, content, words):
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)
    result = CliRunner().invoke(command, ["--scenario", "slow-rank", "--policy", str(file)])
    assert result.exit_code == 2
    assert str(file) in result.output
    assert words in result.output
    assert result.output.count("\n") == 1


def answering(pages):
    def handle(request):
        return pages(request.url.path, dict(request.url.params))

    return httpx.MockTransport(handle)


def test_stored_history_of_several_engines_wants_a_name():
    rows = [{"engine_id": name, "decision_id": name, "at": 1.0} for name in ("a", "b")]
    transport = answering(
        lambda _path, query: httpx.Response(200, json=[] if "before" in query else rows)
    )
    with pytest.raises(InputError, match=r"--engine a \| b"):
        read_history("http://plane", None, None, 10, transport=transport)


@pytest.mark.parametrize(
    ("status", "token", "words"),
    [
        (401, None, "it wants a token of role viewer: pass --token or set TRIMTAB_TOKEN"),
        (401, "x", "it does not know the token given by --token or TRIMTAB_TOKEN"),
        (403, "x", "the token given by --token or TRIMTAB_TOKEN lacks the role viewer"),
        (404, "x", "see its log"),
    ],
)
def test_a_control_plane_that_refuses_says_what_it_wants(status, token, words):
    transport = answering(lambda *_: httpx.Response(status))
    with pytest.raises(InputError, match=f"http://plane answered {status}: {words}"):
        read_history("http://plane", "a", token, 10, transport=transport)


def test_every_scenario_can_be_named():
    assert "incident-24h" in scenarios.names()
