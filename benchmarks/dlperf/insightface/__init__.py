"""Face recognition: the head of partial FC, and the largest number of classes."""
