"""Train a small character LSTM on text, then let it write.

    python examples/char_rnn/train.py                       the Markdown files of this repository
    python examples/char_rnn/train.py book.txt --hidden 256 --epochs 20
    python examples/char_rnn/train.py --smoke               under a minute: a short text, 3 epochs

The network is Embedding, LSTM layers, Dense. Sequences follow each other without gaps, so the
states at the end of one batch are the first states of the next (truncated back-propagation).
Prints the perplexity of every epoch, of training and of held-out text, then a sample.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd

ROOT = Path(__file__).resolve().parents[2]


class CharRNN(gluon.HybridBlock):
    """Scores of the next character at every step.

    Parameters
    ----------
    vocabulary : int
        Number of characters.
    hidden, layers : int
        Size and number of the LSTM layers.
    dropout : float
        Share of values that become 0 between the layers and before the scores.
    """

    def __init__(self, vocabulary: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        with self.name_scope():
            self.embedding = gluon.nn.Embedding(vocabulary, hidden // 2)
            self.lstm = gluon.rnn.LSTM(hidden, layers, dropout=dropout)
            self.dropout = gluon.nn.Dropout(dropout)
            self.scores = gluon.nn.Dense(vocabulary, flatten=False)

    def hybrid_forward(self, F: Any, characters: Any, states: Any) -> Any:  # noqa: N803
        """Return scores (steps, batch, vocabulary) and the states after the last step."""
        outputs, states = self.lstm(self.embedding(characters), states)
        return self.scores(self.dropout(outputs)), states


def read_text(paths: list[str]) -> str:
    """Return the text of the files, or of this repository's Markdown files."""
    files = [Path(p) for p in paths] or sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def batches(codes: np.ndarray, batch: int, steps: int) -> list[nd.NDArray]:
    """Cut a text into columns, and these into pieces of steps + 1 characters.

    Parameters
    ----------
    codes : numpy.ndarray
        The characters' numbers.
    batch, steps : int
        Columns, and steps of a piece.

    Returns
    -------
    list of NDArray
        (steps + 1, batch) each; the last row is the first of the next piece.
    """
    length = len(codes) // batch
    columns = codes[: length * batch].reshape(batch, length).T
    return [
        nd.array(columns[i : i + steps + 1], dtype="float32")
        for i in range(0, length - steps, steps)
    ]


def run_epoch(
    net: CharRNN, pieces: list[nd.NDArray], trainer: gluon.Trainer | None, clip: float
) -> float:
    """Read the text once, and learn if there is a trainer. Return the perplexity."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    states = net.lstm.begin_state(pieces[0].shape[1])
    total, count = nd.zeros((1,)), 0
    for piece in pieces:
        data, label = piece[:-1], piece[1:]
        with autograd.record(train_mode=trainer is not None):
            scores, states = net(data, states)
            loss = loss_of(scores, label).mean()
        states = [state.detach() for state in states]
        if trainer is not None:
            loss.backward()
            grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
            gluon.utils.clip_global_norm(grads, clip, check_isfinite=False)
            trainer.step(1)
        total, count = total + loss.detach(), count + 1
    return math.exp(float(total.asscalar()) / count)


def sample(net: CharRNN, characters: list[str], length: int, temperature: float) -> str:
    """Let the network write; each character is drawn from its scores."""
    states, current = net.lstm.begin_state(1), characters.index("\n")
    written = []
    for _ in range(length):
        scores, states = net(nd.array([[current]]), states)
        current = int(nd.random.multinomial(nd.softmax(scores[0, 0] / temperature)).asscalar())
        written.append(characters[current])
    return "".join(written)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="text files (UTF-8)")
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=64, help="characters of a sequence")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradients")
    parser.add_argument("--temperature", type=float, default=0.7, help="of the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", metavar="FILE", help="write the parameters here")
    parser.add_argument("--smoke", action="store_true", help="small and short")
    args = parser.parse_args()

    text = read_text(args.files)
    if args.smoke:
        text, args.epochs, args.hidden, args.steps = text[:60000], 3, 64, 32
    if len(text) < 4 * args.batch_size * args.steps:
        parser.error(f"the text has {len(text)} characters only")
    mx.random.seed(args.seed)
    characters = sorted(set(text) | {"\n"})
    code = {character: i for i, character in enumerate(characters)}
    codes = np.array([code[character] for character in text], np.int32)
    split = len(codes) * 9 // 10
    training = batches(codes[:split], args.batch_size, args.steps)
    held_out = batches(codes[split:], 4, args.steps)
    print(f"{len(text)} characters, {len(characters)} different, {len(training)} batches")

    net = CharRNN(len(characters), args.hidden, args.layers, args.dropout)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    for epoch in range(args.epochs):
        begin = time.perf_counter()
        learnt = run_epoch(net, training, trainer, args.clip)
        seconds = time.perf_counter() - begin
        tested = run_epoch(net, held_out, None, args.clip)
        speed = len(training) * args.batch_size * args.steps / seconds
        print(
            f"epoch {epoch}: perplexity {learnt:.2f}, held out {tested:.2f}, "
            f"{speed:.0f} characters/s"
        )
    if args.save:
        net.save_parameters(args.save)
    print("-" * 60)
    print(sample(net, characters, 100 if args.smoke else 600, args.temperature))
    print("-" * 60)
    print(f"perplexity of held-out text: {tested:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
