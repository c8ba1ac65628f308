import subprocess
from pathlib import Path

import pytest

from trimtab.demo.processes import ChildFailedError, Children


def test_leaving_the_context_stops_a_running_program(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start_trimtab("hang", ["--help"], {"PYTHONSTARTUP": ""})
        child.process.wait(30)
        assert "Commands" in child.log.read_text()
    assert child.process.poll() is not None


def test_a_program_that_ended_is_named_with_its_last_words(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start_trimtab("wrong", ["no-such-command"])
        child.process.wait(30)
        with pytest.raises(ChildFailedError, match=r"status 2[\s\S]*No such command"):
            children.check()


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start_trimtab("x", ["--help"])
        child.process.wait(30)
        stubborn = subprocess.Popen(
            ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        with stubborn:
            assert stubborn.stdout is not None
            stubborn.stdout.readline()
            child.process = stubborn
            child.stop(timeout_s=0.5)
    assert stubborn.poll() == -9
