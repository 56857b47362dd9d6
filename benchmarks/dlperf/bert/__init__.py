"""BERT pre-training, as ``step.md`` defines its training step."""
