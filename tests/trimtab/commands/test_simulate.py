"""`trimtab simulate` with a control plane that cannot start: its last words, no traceback."""

import pytest
from click.testing import CliRunner

from trimtab.commands.simulate import command
from trimtab.demo.processes import free_port


@pytest.mark.e2e
def test_a_control_plane_that_refuses_its_settings_is_quoted(tmp_path):
    flags = ["--standalone", "--policy", "nosuch", "--engines", "1", "--port", str(free_port())]
    result = CliRunner().invoke(command, [*flags, "--folder", str(tmp_path), "--duration", "5"])
    assert result.exit_code == 1
    assert "setting governor.policy: policy 'nosuch' does not exist; known: " in result.output
    assert isinstance(result.exception, SystemExit)
