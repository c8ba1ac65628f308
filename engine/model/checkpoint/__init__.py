"""Reading checkpoints in Hugging Face layout: config.json and safetensors, sharded or not."""
