"""The tensors of a checkpoint by name: shapes checked, each one accounted for."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import CheckpointError


class TensorSource:
    """Open safetensors files; nothing is read before it is asked for. A context manager.

    Args:
        files: every file of the checkpoint.
        device, dtype: what `take` converts to.
    """

    def __init__(self, files: tuple[Path, ...], device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self._dtype = dtype
        self._open = ExitStack()
        self._by_name: dict[str, Any] = {}
        self._taken: set[str] = set()
        try:
            for path in files:
                opened = self._open.enter_context(safe_open(str(path), framework="pt"))
                self._by_name.update(dict.fromkeys(opened.keys(), opened))
        except (SafetensorError, OSError) as error:
            self._open.close()
            raise CheckpointError(
                f"a tensor file cannot be read: {error}", field="checkpoint", value=str(files)
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._open.close()

    def has(self, name: str) -> bool:
        """Whether the checkpoint has this tensor."""
        return name in self._by_name

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Account for a tensor without reading it.

        Raises:
            CheckpointError: it is missing or has another shape.
        """
        if name not in self._by_name:
            raise CheckpointError(
                f"tensor {name} {list(shape)} is missing", field=name, bound=list(shape)
            )
        found = list(self._by_name[name].get_slice(name).get_shape())
        if found != list(shape):
            raise CheckpointError(
                f"tensor {name} has shape {found}, not {list(shape)}",
                field=name, value=found, bound=list(shape),
            )  # fmt: skip
        self._taken.add(name)

    def take(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Read a tensor of this shape, converted to the source's device and dtype (or `dtype`).

        Raises:
            CheckpointError: it is missing or has another shape.
        """
        self.check(name, shape)
        tensor: Tensor = self._by_name[name].get_tensor(name)
        return tensor.to(device=self.device, dtype=dtype or self._dtype)

    def take_rows(self, name: str, rows: list[int], *shape: int) -> Tensor:
        """Read only these rows of the first dimension of a tensor of this shape.

        Raises:
            CheckpointError: it is missing or has another shape.
        """
        self.check(name, shape)
        stored = self._by_name[name].get_slice(name)
        picked = [stored[row : row + 1] for row in rows]
        empty = torch.empty(0, *shape[1:], dtype=self._dtype)
        joined = torch.cat(picked) if picked else empty
        return joined.to(device=self.device, dtype=self._dtype)

    def finish(self, may_ignore: Callable[[str], bool]) -> None:
        """Refuse a checkpoint with a tensor that nothing took.

        Raises:
            CheckpointError: naming the tensor.
        """
        for name in self._by_name:
            if name not in self._taken and not may_ignore(name):
                raise CheckpointError(
                    f"tensor {name} is in the checkpoint, but this model has no place for it",
                    field=name,
                )
