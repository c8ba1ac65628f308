"""From what the ranks loaded to what the server may know of the model."""

from engine.config import EngineConfig
from engine.llm_engine.exchange import ModelFacts
from engine.llm_engine.memory_guard import BufferShape
from engine.worker.messages import RankFacts


def model_facts(config: EngineConfig, facts: RankFacts) -> ModelFacts:
    """The served model; its context is no longer than what the engine was started with."""
    return ModelFacts(
        name=facts.name,
        layers=facts.layers,
        moe_layers=facts.moe_layers,
        experts=facts.moe.num_experts,
        top_k=facts.moe.top_k,
        vocabulary=facts.vocabulary,
        context_tokens=min(config.context_tokens, facts.context_tokens),
        expert_set_hash=facts.expert_set_hash,
        checkpoint_bias=facts.checkpoint_bias,
        eos_token_ids=facts.eos_token_ids,
    )


def buffer_shape(config: EngineConfig, facts: RankFacts) -> BufferShape:
    """What sizes the expert buffers of one rank."""
    return BufferShape(facts.moe, config.ranks, 2 if config.dtype == "bfloat16" else 4)
