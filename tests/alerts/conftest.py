import pytest

from alerts.build import rules


@pytest.fixture(scope="session")
def rule_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    for name, content in rules().items():
        (folder / name).write_text(content)
    return folder
