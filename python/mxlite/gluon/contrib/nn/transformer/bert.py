"""BERT: the encoder, its pre-training objectives, and a classifier on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....base import InputError, ShapeError, ValueError_
from ....block import HybridBlock
from ....nn.basic_layers import Dense, Dropout, Embedding, HybridSequential, LayerNorm
from .cells import TransformerEncoderCell, activation_layer
from .positions import LearnedPositions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ....call_types import BlockOptions

__all__ = ["BERTClassifier", "BERTForPretraining", "BERTModel"]


class BERTModel(HybridBlock):
    """Encoder of token ids (Devlin et al., 2018); the defaults are BERT-base's, uncased.

    Parameters
    ----------
    vocab_size : int
    units : int
        Features of a position, a multiple of ``num_heads``.
    hidden_size : int
        Features inside the feed-forward networks.
    num_layers, num_heads : int
    max_length : int
        Number of positions: the longest sequence.
    token_types : int
        Number of kinds of segments.
    dropout : float
        Share of values that become 0 in training.
    attention_dropout : float, optional
        Likewise for the attention weights; ``dropout`` by default.
    activation : str
        ``"gelu"`` (with the error function), ``"gelu_tanh"``, ``"relu"``, ``"silu"`` or ``"tanh"``.
    pre_norm : bool
        Whether LayerNorm comes before attention and feed-forward network; if so, one more
        LayerNorm follows the last layer.
    layer_norm_eps : float
    use_pooler : bool
        Whether the first position passes through a dense layer with tanh.
    """

    def __init__(
        self,
        vocab_size: int = 30522,
        units: int = 768,
        hidden_size: int = 3072,
        num_layers: int = 12,
        num_heads: int = 12,
        max_length: int = 512,
        token_types: int = 2,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        activation: str = "gelu",
        pre_norm: bool = False,
        layer_norm_eps: float = 1e-12,
        use_pooler: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.vocab_size, self.max_length = units, vocab_size, max_length
        self.layer_norm_eps, self.activation_name = layer_norm_eps, activation
        self.num_layers, self.num_heads = num_layers, num_heads
        self._use_pooler, self._pre_norm = use_pooler, pre_norm
        with self.name_scope():
            self.word_embed = Embedding(vocab_size, units)
            self.token_type_embed = Embedding(token_types, units)
            self.position_embed = LearnedPositions(max_length, units)
            self.embed_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)
            self.embed_dropout = Dropout(dropout)
            self.layers = HybridSequential()
            for _ in range(num_layers):
                self.layers.add(
                    TransformerEncoderCell(
                        units, hidden_size, num_heads, dropout, attention_dropout, activation,
                        pre_norm, layer_norm_eps,
                    )
                )  # fmt: skip
            if pre_norm:
                self.final_norm = LayerNorm(epsilon=layer_norm_eps, in_channels=units)
            if use_pooler:
                self.pooler = Dense(units, flatten=False, in_units=units, activation="tanh")

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        tokens: Any,
        token_types: Any = None,
        valid_lengths: Any = None,
    ) -> Any:
        """Return the encoded sequence, and the pooled first position if there is a pooler.

        Parameters
        ----------
        F : module
        tokens : NDArray or Symbol
            Ids of shape (batch, length).
        token_types : NDArray or Symbol, optional
            Segment of each token, of the same shape; all 0 by default.
        valid_lengths : NDArray or Symbol, optional
            (batch,): tokens that are not padding; by default all are.

        Returns
        -------
        sequence : NDArray or Symbol
            (batch, length, units); rows of padding have no meaning.
        pooled : NDArray or Symbol
            (batch, units).
        """
        _check_tokens(self, tokens, token_types, valid_lengths)
        if token_types is None:
            token_types = F.zeros_like(tokens)
        x = self.word_embed(tokens) + self.token_type_embed(token_types)
        x = self.embed_dropout(self.embed_norm(self.position_embed(x)))
        for layer in self.layers:
            x = layer(x, valid_lengths)
        if self._pre_norm:
            x = self.final_norm(x)
        if not self._use_pooler:
            return x
        first = F.slice_axis(x, axis=1, begin=0, end=1)
        return x, self.pooler(F.reshape(first, shape=(0, -1)))


class BERTForPretraining(HybridBlock):
    """BERT with two outputs: scores of masked tokens, and of whether segment 2 follows segment 1.

    The decoder of masked tokens has the weight of the word embedding and a bias of its own.

    Parameters
    ----------
    backbone : BERTModel
    use_nsp : bool
        Whether there is a next-sentence classifier, which needs the pooler; RoBERTa has none.
    """

    def __init__(
        self, backbone: BERTModel, use_nsp: bool = True, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(**kwargs)
        if use_nsp and not backbone._use_pooler:
            raise ValueError_(
                "BERTForPretraining: with use_nsp=True, the model must be "
                "BERTModel(use_pooler=True), got a model without pooler"
            )
        self._use_nsp, self._vocab_size, self._units = use_nsp, backbone.vocab_size, backbone.units
        units = backbone.units
        with self.name_scope():
            self.backbone = backbone
            self.mlm_transform = Dense(units, flatten=False, in_units=units)
            self.mlm_activation = activation_layer(backbone.activation_name)
            self.mlm_norm = LayerNorm(epsilon=backbone.layer_norm_eps, in_channels=units)
            self.mlm_weight = backbone.word_embed.weight
            self.mlm_bias = self.params.get("mlm_bias", shape=(backbone.vocab_size,), init="zeros")
            if use_nsp:
                self.nsp = Dense(2, flatten=False, in_units=units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        tokens: Any,
        token_types: Any,
        valid_lengths: Any,
        masked_positions: Any = None,
        *,
        mlm_weight: Any,
        mlm_bias: Any,
    ) -> Any:
        """Return the scores of all tokens at the masked positions, and of the two sequence classes.

        Parameters
        ----------
        F : module
        tokens, token_types, valid_lengths
            As in `BERTModel`.
        masked_positions : NDArray or Symbol
            Positions of shape (batch, masks), below the length.
        mlm_weight, mlm_bias : NDArray or Symbol
            (vocab_size, units) and (vocab_size,).

        Returns
        -------
        mlm_scores : NDArray or Symbol
            (batch, masks, vocab_size).
        nsp_scores : NDArray or Symbol
            (batch, 2), if there is a classifier; class 1 means that the segments do not follow.

        Raises
        ------
        InputError
            If masked positions are missing.
        ShapeError
            If the masked positions and the tokens have different batch sizes.
        """
        if masked_positions is None:
            raise InputError(
                "BERTForPretraining: masked_positions must be positions of shape (batch, masks), "
                "got None; call backbone for an encoding without masks"
            )
        found, given = (getattr(array, "shape", None) for array in (masked_positions, tokens))
        if found is not None and given is not None and (len(found) != 2 or found[0] != given[0]):
            raise ShapeError(
                f"BERTForPretraining: masked_positions must have shape ({given[0]}, masks) for "
                f"tokens of shape {tuple(given)}, got {tuple(found)}"
            )
        outputs = self.backbone(tokens, token_types, valid_lengths)
        sequence = outputs[0] if self.backbone._use_pooler else outputs
        rows = F.expand_dims(F.contrib.arange_like(masked_positions, axis=0), axis=1)
        rows = F.cast(F.broadcast_like(rows, masked_positions), dtype="int32")
        index = F.stack(rows, F.cast(masked_positions, dtype="int32"), axis=0)
        x = self.mlm_transform(F.gather_nd(sequence, index))
        x = self.mlm_norm(self.mlm_activation(x))
        scores = F.FullyConnected(
            x, mlm_weight, mlm_bias, num_hidden=self._vocab_size, flatten=False
        )
        return (scores, self.nsp(outputs[1])) if self._use_nsp else scores


class BERTClassifier(HybridBlock):
    """BERT with dropout and a dense layer on the pooled first position.

    Parameters
    ----------
    backbone : BERTModel
        With a pooler.
    num_classes : int
        1 for regression.
    dropout : float
    """

    def __init__(
        self,
        backbone: BERTModel,
        num_classes: int = 2,
        dropout: float = 0.1,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        if not backbone._use_pooler:
            raise ValueError_(
                "BERTClassifier: the model must be BERTModel(use_pooler=True), got a model "
                "without pooler"
            )
        with self.name_scope():
            self.backbone = backbone
            self.dropout = Dropout(dropout)
            self.classifier = Dense(num_classes, flatten=False, in_units=backbone.units)

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        tokens: Any,
        token_types: Any = None,
        valid_lengths: Any = None,
    ) -> Any:
        """Return (batch, num_classes); see `BERTModel` for the inputs."""
        _, pooled = self.backbone(tokens, token_types, valid_lengths)
        return self.classifier(self.dropout(pooled))


def _check_tokens(block: HybridBlock, tokens: Any, token_types: Any, lengths: Any) -> None:
    """Raise ShapeError if the inputs are incompatible; the shape of symbols is not checked."""
    shape = getattr(tokens, "shape", None)
    if shape is None:
        return
    label = type(block).__name__
    if len(shape) != 2:
        raise ShapeError(f"{label}: tokens must have 2 axes, got shape {tuple(shape)}")
    for name, array, wanted in (
        ("token_types", token_types, tuple(shape)),
        ("valid_lengths", lengths, (shape[0],)),
    ):
        found = getattr(array, "shape", wanted)
        if tuple(found) != wanted:
            raise ShapeError(
                f"{label}: {name} must have shape {wanted} for tokens of shape {tuple(shape)}, "
                f"got {tuple(found)}"
            )
