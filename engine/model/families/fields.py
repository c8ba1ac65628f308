"""Reading a config.json so that nothing in it is silently ignored."""

from typing import Any

from engine.errors import CheckpointError

# No effect on what a forward computes: names, training, generation defaults of other programs.
_INERT = frozenset({
    "_name_or_path", "architectures", "attention_dropout", "auto_map", "bos_token_id",
    "chunk_size_feed_forward", "dtype", "ep_size", "for_llm_compressor", "id2label",
    "initializer_range", "is_encoder_decoder", "label2id", "model_type", "output_attentions",
    "output_hidden_states", "output_router_logits", "pad_token_id", "pretraining_tp",
    "problem_type", "return_dict", "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha",
    "seq_aux", "torch_dtype", "transformers_version", "use_cache",
})  # fmt: skip


class Fields:
    """The fields of one config; every reader marks its field as honoured.

    Args:
        config: the parsed config.json.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._honoured: set[str] = set(_INERT)

    def get(self, name: str, default: Any) -> Any:
        """A field, or `default` where it is absent."""
        self._honoured.add(name)
        return self._config.get(name, default)

    def whole(self, name: str, *, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least`; an absent field without default is an error."""
        value = self.get(name, default)
        if value is None:
            value = default
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise CheckpointError(
                f"config field {name} is {value!r}, not a whole number of at least {least}",
                field=name, value=value, bound=least,
            )  # fmt: skip
        return value

    def optional_whole(self, name: str) -> int | None:
        """A whole number of at least 1, or None where the field is null or absent."""
        return None if self.get(name, None) is None else self.whole(name)

    def number(self, name: str, default: float) -> float:
        """A real number."""
        value = self.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise CheckpointError(
                f"config field {name} is {value!r}, not a number", field=name, value=value
            )
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean; null means the default."""
        value = self.get(name, default)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise CheckpointError(
                f"config field {name} is {value!r}, not true or false", field=name, value=value
            )
        return value

    def must_be(self, name: str, *allowed: Any) -> None:
        """A field whose other values change the model in a way that is not served."""
        value = self.get(name, allowed[0])
        if value not in allowed:
            raise CheckpointError(
                f"config field {name} is {value!r}; this engine serves only "
                + " or ".join(repr(choice) for choice in allowed),
                field=name, value=value, bound=list(allowed),
            )  # fmt: skip

    def token_ids(self, name: str) -> tuple[int, ...]:
        """None, one id or a list of ids."""
        value = self.get(name, None)
        if value is None:
            return ()
        return tuple(value) if isinstance(value, list) else (int(value),)

    def finish(self) -> None:
        """Refuse a config with a field that no reader took.

        Raises:
            CheckpointError: naming the field.
        """
        for name, value in self._config.items():
            if name not in self._honoured and value is not None:
                raise CheckpointError(
                    f"config field {name} ({value!r}) is not honoured by this engine",
                    field=name, value=value,
                )  # fmt: skip
