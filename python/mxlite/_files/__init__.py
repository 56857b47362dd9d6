"""Readers of packed files and pickles from elsewhere, which trust nothing that they read."""
