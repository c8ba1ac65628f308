"""The kernels benchmark names every op and says what ran."""

from trimtab.bench import kernels


def test_every_op_is_timed_with_the_reason_of_its_backend(monkeypatch):
    monkeypatch.setattr(kernels, "REPEATS", 2)
    figures = {figure.name: figure for figure in kernels.run()}
    assert len(figures) == 7
    assert all(figure.value > 0 and "run" in figure.against for figure in figures.values())
