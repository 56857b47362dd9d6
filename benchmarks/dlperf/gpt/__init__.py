"""GPT-2 training and sampling, as ``step.md`` defines them."""
