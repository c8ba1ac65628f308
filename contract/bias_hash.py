"""The content hash of a router bias: one definition for stores, frames and both planes."""

import hashlib


def bias_hash(values: bytes, *, layers: int, experts: int) -> str:
    """SHA-256 over the shape and the FP32 little-endian row-major bytes [layers, experts].

    With numpy: `bias_hash(array.astype("<f4").tobytes(), layers=L, experts=E)`.

    Raises:
        ValueError: the bytes do not have the size of the shape.
    """
    if len(values) != 4 * layers * experts:
        raise ValueError(
            f"{len(values)} bytes are not an FP32 bias of {layers} layers and {experts} experts "
            f"({4 * layers * experts} bytes)"
        )
    digest = hashlib.sha256(f"router_bias {layers}x{experts} f32\n".encode())
    digest.update(values)
    return digest.hexdigest()
