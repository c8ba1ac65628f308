"""From nothing to a checkpoint folder: train, write, measure, describe."""

import time
from collections.abc import Callable
from pathlib import Path

from engine.model.training.corpus import read_corpus
from engine.model.training.evaluation import Evaluation, evaluate
from engine.model.training.export import write_checkpoint
from engine.model.training.model_card import TrainingRun, write_card
from engine.model.training.probe_text import probe_text
from engine.model.training.recipe import Recipe
from engine.model.training.shape import Shape
from engine.model.training.stream import Streams
from engine.model.training.trainer import StepReport, train


def train_checkpoint(
    recipe: Recipe,
    shape: Shape,
    folder: Path,
    *,
    command: str,
    report: Callable[[StepReport], None],
    begin_evaluation: Callable[[], None],
) -> Evaluation:
    """Train and write the folder: weights, config, tokenizer, probe text, model card.

    Args:
        recipe: how.
        shape: what.
        folder: where; created when absent, its files replaced.
        command: the command line that the card names.
        report: called after each step.
        begin_evaluation: called when training is over and measuring begins.
    """
    started = time.process_time()
    steps, tokens = 0, 0

    def count(step: StepReport) -> None:
        nonlocal steps, tokens
        steps, tokens = step.step, tokens + step.tokens
        report(step)

    domains = read_corpus()
    network = train(recipe, shape, Streams.of(domains), count)
    cpu_minutes = (time.process_time() - started) / 60
    write_checkpoint(network, folder)
    begin_evaluation()
    (folder / "probe.txt").write_text(probe_text(domains), encoding="utf-8")
    evaluation = evaluate(folder, domains)
    write_card(
        folder, shape=shape, run=TrainingRun(recipe, steps, tokens, cpu_minutes),
        evaluation=evaluation, domains=domains, command=command,
    )  # fmt: skip
    return evaluation
