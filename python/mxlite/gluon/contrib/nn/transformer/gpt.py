"""A decoder of token ids such as GPT-2, with a cache of keys and values for generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..... import ndarray as nd
from .....base import ShapeError, ValueError_
from .....context import Context
from .....ndarray import NDArray
from ....block import HybridBlock
from ....nn.basic_layers import Dropout, Embedding, HybridSequential, LayerNorm
from .cells import TransformerEncoderCell
from .positions import LearnedPositions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ....call_types import BlockOptions

__all__ = ["GPTModel", "KeyValueCache"]


class KeyValueCache:
    """Keys and values of the tokens that a `GPTModel` has read.

    Parameters
    ----------
    arrays : list of NDArray
        Keys and values of each layer in turn, (batch, heads, max_length, size).

    Attributes
    ----------
    length : int
        Number of tokens read.
    max_length : int
        Number of tokens that fit.
    """

    def __init__(self, arrays: list[NDArray]) -> None:
        self.arrays = arrays
        self.length = 0
        self.max_length = arrays[0].shape[2]


class GPTModel(HybridBlock):
    """Decoder with causal attention (Radford et al., 2019); the defaults are GPT-2 small's.

    The scores of the next token are products with the rows of the word embedding.

    Parameters
    ----------
    vocab_size : int
    units : int
        Features of a position, a multiple of ``num_heads``.
    hidden_size : int, optional
        Features inside the feed-forward networks; ``4 * units`` by default.
    num_layers, num_heads : int
    max_length : int
        Number of positions: the longest sequence.
    dropout : float
        Share of values that become 0 in training.
    activation : str
        As in `BERTModel`.
    positions : {'learned', 'rotary'}
        A vector for each position, or rotation of queries and keys.
    rotary_base : float
    pre_norm : bool
    layer_norm_eps : float
    """

    def __init__(
        self,
        vocab_size: int = 50257,
        units: int = 768,
        hidden_size: int | None = None,
        num_layers: int = 12,
        num_heads: int = 12,
        max_length: int = 1024,
        dropout: float = 0.1,
        activation: str = "gelu_tanh",
        positions: str = "learned",
        rotary_base: float = 10000.0,
        pre_norm: bool = True,
        layer_norm_eps: float = 1e-5,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        if positions not in ("learned", "rotary"):
            raise ValueError_(
                f"GPTModel: positions must be 'learned' or 'rotary', got {positions!r}"
            )
        self.units, self.vocab_size, self.max_length = units, vocab_size, max_length
        self.num_layers, self.num_heads = num_layers, num_heads
        self._learned, self._pre_norm = positions == "learned", pre_norm
        with self.name_scope():
            self.word_embed = Embedding(vocab_size, units)
            self.output_weight = self.word_embed.weight
            if self._learned:
                self.position_embed = LearnedPositions(max_length, units)
            self.embed_dropout = Dropout(dropout)
            self.layers = HybridSequential()
            for _ in range(num_layers):
                self.layers.add(
                    TransformerEncoderCell(
                        units, hidden_size or 4 * units, num_heads, dropout, None, activation,
                        pre_norm, layer_norm_eps, True, None if self._learned else rotary_base,
                    )
                )  # fmt: skip
            if pre_norm:
                self.final_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        tokens: Any,
        positions: Any = None,
        cache: Any = None,
        *,
        output_weight: Any,
    ) -> Any:
        """Return, for each position, the scores of the next token; see `decode` for generation.

        Parameters
        ----------
        F : module
        tokens : NDArray or Symbol
            Ids of shape (batch, length).
        positions : NDArray or Symbol, optional
            float32 of shape (length,); 0, 1, 2, ... by default.
        cache : list of NDArray or Symbol, optional
            As in `KeyValueCache`.
        output_weight : NDArray or Symbol
            (vocab_size, units).

        Returns
        -------
        NDArray or Symbol, or a list of them
            (batch, length, vocab_size), followed by the new cache's arrays if one is given.
        """
        shape = getattr(tokens, "shape", None)
        if shape is not None and (len(shape) != 2 or shape[1] > self.max_length):
            raise ShapeError(
                "GPTModel: tokens must have shape (batch, length) with at most max_length = "
                f"{self.max_length} tokens, got {tuple(shape)}"
            )
        x = self.word_embed(tokens)
        if self._learned:
            x = self.position_embed(x, positions)
        x = self.embed_dropout(x)
        arrays: list[Any] = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, None, None, positions)
            else:
                part = cache[2 * number : 2 * number + 2]
                x, *new = layer(x, None, None, positions, part)
                arrays += new
        if self._pre_norm:
            x = self.final_norm(x)
        scores = F.FullyConnected(
            x, output_weight, num_hidden=self.vocab_size, no_bias=True, flatten=False
        )
        return scores if cache is None else [scores, *arrays]

    def make_cache(
        self,
        batch_size: int,
        max_length: int | None = None,
        ctx: Context | None = None,
        dtype: str = "float32",
    ) -> KeyValueCache:
        """Return an empty cache.

        Parameters
        ----------
        batch_size : int
            Sequences that are read together.
        max_length : int, optional
            Tokens that fit; the model's ``max_length`` by default.
        ctx : Context, optional
            The current one by default.
        dtype : str
            dtype of the model's activations.

        Raises
        ------
        ValueError
            If ``max_length`` is larger than the model's.
        """
        length = self.max_length if max_length is None else max_length
        if not 1 <= length <= self.max_length:
            raise ValueError_(
                f"GPTModel.make_cache: max_length must be 1 to {self.max_length}, the model's "
                f"positions; got {length}"
            )
        shape = (batch_size, self.num_heads, length, self.units // self.num_heads)
        arrays = [nd.zeros(shape, ctx=ctx, dtype=dtype) for _ in range(2 * self.num_layers)]
        return KeyValueCache(arrays)

    def decode(self, tokens: NDArray, cache: KeyValueCache) -> NDArray:
        """Return the scores after each of the next tokens, and add the tokens to the cache.

        A hybridized model compiles one graph for each length of ``tokens``, so that steps of one
        token share a graph.

        Parameters
        ----------
        tokens : NDArray
            Ids of shape (batch, length) that follow those read before.
        cache : KeyValueCache
            From `make_cache`; updated.

        Returns
        -------
        NDArray
            (batch, length, vocab_size), the rows that a call with all tokens would have.

        Raises
        ------
        ShapeError
            If the tokens do not fit into the cache.
        """
        batch = cache.arrays[0].shape[0]
        if tokens.ndim != 2 or tokens.shape[0] != batch:
            raise ShapeError(
                f"GPTModel.decode: tokens must have shape ({batch}, length) for this cache, got "
                f"{tokens.shape}"
            )
        end = cache.length + tokens.shape[1]
        if end > cache.max_length:
            raise ShapeError(
                f"GPTModel.decode: the cache must hold at most {cache.max_length} tokens, got "
                f"{tokens.shape[1]} after {cache.length}; make a cache with a larger max_length"
            )
        positions = nd.arange(cache.length, end, ctx=tokens.ctx)
        scores, *arrays = self(tokens, positions, cache.arrays)
        cache.arrays, cache.length = arrays, end
        return scores
