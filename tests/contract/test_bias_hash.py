import numpy as np
import pytest

from contract.bias_hash import bias_hash


def test_hash_is_pinned_so_that_stored_snapshots_keep_their_name() -> None:
    values = np.arange(6, dtype="<f4").tobytes()
    assert (
        bias_hash(values, layers=2, experts=3)
        == "dd6c208c891e4ea600190561d19e49d4287bc0c58f4236dbfd3c155e03bbbaa4"
    )


def test_shape_is_part_of_the_hash() -> None:
    values = np.zeros(6, dtype="<f4").tobytes()
    assert bias_hash(values, layers=2, experts=3) != bias_hash(values, layers=3, experts=2)


def test_wrong_size_names_both_sizes() -> None:
    with pytest.raises(ValueError, match=r"5 bytes .* 2 layers and 3 experts \(24 bytes\)"):
        bias_hash(b"12345", layers=2, experts=3)
