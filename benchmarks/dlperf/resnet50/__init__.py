"""ResNet-50 v1.5, as ``step.md`` defines its training step."""
