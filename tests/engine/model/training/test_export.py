"""A network that was written is served with the logits that it had in training."""

from pathlib import Path

import torch

from engine.model.tokenizer import Tokenizer
from engine.model.training.export import byte_alphabet, write_checkpoint
from engine.model.training.network import Network
from engine.model.training.shape import Shape
from tests.support.models import Served

SMALL = Shape(hidden_size=32, intermediate_size=48, num_hidden_layers=3, n_routed_experts=16)


def test_training_and_serving_agree(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Network(SMALL)
    for gate in network.gates():
        gate.e_score_correction_bias.normal_(std=0.1)
    write_checkpoint(network, tmp_path)
    tokens = list(b"for name in names:\n    print(name)\n")
    with torch.no_grad():
        expected, loads = network(torch.tensor([tokens]))
    torch.testing.assert_close(Served.load(tmp_path).logits(tokens), expected[0], atol=1e-4, rtol=0)
    assert loads.sum(1).tolist() == [len(tokens) * 8.0] * 2


def test_the_tokenizer_that_is_written_maps_bytes_to_themselves(tmp_path: Path) -> None:
    write_checkpoint(Network(SMALL), tmp_path)
    text = bytes(range(1, 128)).decode() + "é€"
    assert Tokenizer(tmp_path).encode(text) == tuple(text.encode())


def test_every_byte_has_its_own_character() -> None:
    alphabet = byte_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    assert len(alphabet) == 256
