"""Cells of encoders and decoders: attention and a feed-forward network with residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .....base import ValueError_
from ....block import HybridBlock
from ....nn.activations import GELU, Activation, Swish
from ....nn.basic_layers import Dense, Dropout, LayerNorm
from .attention import MultiHeadCrossAttention, MultiHeadSelfAttention

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ....call_types import BlockOptions

__all__ = [
    "FeedForward",
    "TanhGELU",
    "TransformerDecoderCell",
    "TransformerEncoderCell",
    "activation_layer",
]


class TanhGELU(HybridBlock):
    """``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``, GPT-2's approximation of GELU."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Apply the function element by element."""
        return F.LeakyReLU(x, act_type="gelu_tanh")


_ACTIVATIONS: dict[str, Callable[[], HybridBlock]] = {
    "gelu": GELU,
    "gelu_tanh": TanhGELU,
    "silu": Swish,
    "relu": lambda: Activation("relu"),
    "tanh": lambda: Activation("tanh"),
}


def activation_layer(name: str) -> HybridBlock:
    """Return the layer of an activation."""
    if name not in _ACTIVATIONS:
        raise ValueError_(
            f"transformer: activation must be one of {', '.join(_ACTIVATIONS)}, got {name!r}"
        )
    return _ACTIVATIONS[name]()


class FeedForward(HybridBlock):
    """Two dense layers with an activation between them, applied to each position separately.

    Parameters
    ----------
    units : int
        Features of input and output.
    hidden_size : int
        Features between the layers.
    activation : str
        As in `activation_layer`.
    """

    def __init__(
        self,
        units: int,
        hidden_size: int,
        activation: str = "gelu",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.expand = Dense(hidden_size, flatten=False, in_units=units)
            self.activation = activation_layer(activation)
            self.contract = Dense(units, flatten=False, in_units=hidden_size)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return (batch, length, units) for the same shape."""
        return self.contract(self.activation(self.expand(x)))


class _Cell(HybridBlock):
    """Base of the cells: ``norm(x + dropout(part(x)))``, or ``x + dropout(part(norm(x)))``."""

    def __init__(self, dropout: float, pre_norm: bool, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._pre_norm = pre_norm
        self.dropout = Dropout(dropout)

    def _begin(self, norm: LayerNorm, x: Any) -> Any:
        """Return the input of a part: ``norm(x)`` if ``pre_norm``, else ``x``."""
        return norm(x) if self._pre_norm else x

    def _end(self, norm: LayerNorm, x: Any, output: Any) -> Any:
        """Add dropout, the residual and, unless ``pre_norm``, the normalization to ``output``."""
        x = x + self.dropout(output)
        return x if self._pre_norm else norm(x)


class TransformerEncoderCell(_Cell):
    """Self-attention and a feed-forward network.

    Parameters
    ----------
    units : int
        Features of a position, a multiple of ``num_heads``.
    hidden_size : int
        Features inside the feed-forward network.
    num_heads : int
    dropout : float
        Share of the outputs of attention and network that become 0 in training.
    attention_dropout : float, optional
        Likewise for the attention weights; ``dropout`` by default.
    activation : str
        As in `activation_layer`.
    pre_norm : bool
        Whether LayerNorm comes before attention and network, as in GPT-2, instead of after the
        residual, as in BERT.
    layer_norm_eps : float
    causal : bool
        Whether a position attends to itself and earlier ones only.
    rotary_base : float, optional
        As in `MultiHeadSelfAttention`.
    """

    def __init__(
        self,
        units: int,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation: str = "gelu",
        pre_norm: bool = False,
        layer_norm_eps: float = 1e-12,
        causal: bool = False,
        rotary_base: float | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(dropout, pre_norm, **kwargs)
        weights_dropout = dropout if attention_dropout is None else attention_dropout
        with self.name_scope():
            self.attention = MultiHeadSelfAttention(
                units, num_heads, weights_dropout, causal, rotary_base
            )
            self.attention_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)
            self.ffn = FeedForward(units, hidden_size, activation)
            self.ffn_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        x: Any,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
        cache: Any = None,
    ) -> Any:
        """Return (batch, length, units), and the new cache if one is given.

        Parameters
        ----------
        F : module
        x, lengths, mask, positions, cache
            As in `MultiHeadSelfAttention`.
        """
        outputs = self.attention(
            self._begin(self.attention_norm, x), lengths, mask, positions, cache
        )
        mixed = outputs if cache is None else outputs[0]
        x = self._end(self.attention_norm, x, mixed)
        x = self._end(self.ffn_norm, x, self.ffn(self._begin(self.ffn_norm, x)))
        return x if cache is None else (x, outputs[1], outputs[2])


class TransformerDecoderCell(_Cell):
    """Causal self-attention, attention to an encoder's output, and a feed-forward network.

    Parameters
    ----------
    units, hidden_size, num_heads, dropout, attention_dropout, activation, pre_norm
        As in `TransformerEncoderCell`.
    layer_norm_eps, rotary_base
        As in `TransformerEncoderCell`.
    """

    def __init__(
        self,
        units: int,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation: str = "relu",
        pre_norm: bool = False,
        layer_norm_eps: float = 1e-5,
        rotary_base: float | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(dropout, pre_norm, **kwargs)
        weights_dropout = dropout if attention_dropout is None else attention_dropout
        with self.name_scope():
            self.attention = MultiHeadSelfAttention(
                units, num_heads, weights_dropout, True, rotary_base
            )
            self.attention_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)
            self.cross_attention = MultiHeadCrossAttention(units, num_heads, weights_dropout)
            self.cross_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)
            self.ffn = FeedForward(units, hidden_size, activation)
            self.ffn_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        x: Any,
        memory: Any,
        lengths: Any = None,
        memory_lengths: Any = None,
        positions: Any = None,
        cache: Any = None,
    ) -> Any:
        """Return (batch, length, units), and the new cache if one is given.

        Parameters
        ----------
        F : module
        x, lengths, positions, cache
            As in `MultiHeadSelfAttention`.
        memory : NDArray or Symbol
            Output of the encoder, (batch, memory length, units).
        memory_lengths : NDArray or Symbol, optional
            (batch,): number of positions of ``memory`` that are not padding.
        """
        outputs = self.attention(
            self._begin(self.attention_norm, x), lengths, None, positions, cache
        )
        x = self._end(self.attention_norm, x, outputs if cache is None else outputs[0])
        crossed = self.cross_attention(self._begin(self.cross_norm, x), memory, memory_lengths)
        x = self._end(self.cross_norm, x, crossed)
        x = self._end(self.ffn_norm, x, self.ffn(self._begin(self.ffn_norm, x)))
        return x if cache is None else (x, outputs[1], outputs[2])
