"""Transformers: attention, cells of encoders and decoders, BERT and GPT models."""

from __future__ import annotations

from .attention import MultiHeadCrossAttention, MultiHeadSelfAttention, dot_product_attention
from .bert import BERTClassifier, BERTForPretraining, BERTModel
from .cells import FeedForward, TanhGELU, TransformerDecoderCell, TransformerEncoderCell
from .convert import load_weights
from .gpt import GPTModel, KeyValueCache
from .positions import LearnedPositions, rotate

__all__ = [
    "BERTClassifier",
    "BERTForPretraining",
    "BERTModel",
    "FeedForward",
    "GPTModel",
    "KeyValueCache",
    "LearnedPositions",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "TanhGELU",
    "TransformerDecoderCell",
    "TransformerEncoderCell",
    "dot_product_attention",
    "load_weights",
    "rotate",
]
