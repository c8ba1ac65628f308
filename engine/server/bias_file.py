"""A router bias as a safetensors file: one FP32 tensor, `router_bias` [MoE layers, experts]."""

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from contract.bias_hash import bias_hash
from engine.errors import BadRequestError
from engine.server.core import Bias

TENSOR_NAME = "router_bias"
MEDIA_TYPE = "application/vnd.safetensors"


def content_hash(bias: Bias) -> str:
    """The content hash of `contract.bias_hash` of a bias [layers, experts]."""
    layers, experts = bias.shape
    return bias_hash(bias.astype("<f4").tobytes(), layers=layers, experts=experts)


def to_safetensors(bias: Bias) -> bytes:
    """The file's bytes."""
    packed: bytes = save({TENSOR_NAME: np.ascontiguousarray(bias, dtype=np.float32)})
    return packed


def from_safetensors(data: bytes, *, shape: tuple[int, int] | None = None) -> Bias:
    """The bias of a file.

    Raises:
        BadRequestError: not safetensors, another tensor, dtype or shape, or a value not finite.
    """
    try:
        tensors: dict[str, npt.NDArray[np.float32]] = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise BadRequestError(
            f"the body is not a safetensors file: {error}",
            field="body", bound=f"safetensors with the FP32 tensor {TENSOR_NAME!r}",
        ) from None  # fmt: skip
    if set(tensors) != {TENSOR_NAME}:
        raise BadRequestError(
            f"the file holds the tensors {sorted(tensors)}, expected {TENSOR_NAME!r} alone",
            field="body", value=sorted(tensors), bound=[TENSOR_NAME],
        )  # fmt: skip
    bias = tensors[TENSOR_NAME]
    if bias.dtype != np.float32:
        raise BadRequestError(
            f"{TENSOR_NAME} has dtype {bias.dtype}; a bias is FP32 always",
            field=TENSOR_NAME, value=str(bias.dtype), bound="float32",
        )  # fmt: skip
    if bias.ndim != 2 or (shape is not None and bias.shape != shape):
        raise BadRequestError(
            f"{TENSOR_NAME} has shape {list(bias.shape)}, this model has {list(shape or ())}",
            field=TENSOR_NAME, value=list(bias.shape), bound=list(shape or ()),
        )  # fmt: skip
    if not np.isfinite(bias).all():
        raise BadRequestError(
            f"{TENSOR_NAME} holds a value that is not finite",
            field=TENSOR_NAME, value="nan or inf", bound="finite",
        )  # fmt: skip
    return bias
