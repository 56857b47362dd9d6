"""Code that the training scripts share: options, data, training, pre-trained networks."""
