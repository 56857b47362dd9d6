"""Shared by the training scripts: options, data, training, pre-trained networks."""
