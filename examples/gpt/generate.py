r"""Write text with a network of pretrain.py, or with GPT-2's published parameters.

    python generate.py --checkpoints run --tokenizer data/text --prompt "The engine"
    python generate.py --checkpoints gpt2 --vocab encoder.json --merges vocab.bpe --top-k 40

``--import-from gpt2.npz`` (arrays of a state dict of transformers' GPT2LMHeadModel) or a
``.params`` file of gluon-nlp writes a checkpoint for both scripts.
"""

from __future__ import annotations

import argparse
from typing import Any

import mxlite as mx
import numpy as np
from model import Config, make_plain, plain_names
from mxlite import checkpoint
from mxlite.gluon.contrib.nn.transformer import GPTModel, load_weights
from tokenization import END, load_tokenizer


def load_network(folder: str) -> tuple[GPTModel, Config]:
    """Return the network of the last checkpoint in a folder, with a cache for decoding."""
    found = checkpoint.CheckpointManager(folder).load_latest()
    if found is None:
        raise SystemExit(f"gpt: there is no checkpoint in {folder}")
    config = Config(**found["config"])
    net = make_plain(config)
    net.initialize()
    params = net._collect_params_with_prefix()
    values = found["model"]["params"]
    for ours, theirs in plain_names(config.layers).items():
        param = params[theirs]
        param.set_data(values[ours].astype("float32").reshape(param.shape))
    net.hybridize(static_alloc=True)
    return net, config


def import_network(path: str, folder: str, config: Config) -> None:
    """Write a checkpoint with the parameters of Hugging Face's or gluon-nlp's GPT-2."""
    net = make_plain(config)
    net.initialize()
    if path.endswith(".params"):
        load_weights(net, mx.nd.load(path), "gluonnlp")
    else:
        with np.load(path) as file:
            load_weights(net, dict(file), "gpt2")
    own = net._collect_params_with_prefix()
    params = {}
    for ours, theirs in plain_names(config.layers).items():
        value = own[theirs].data()
        if "_qkv_" in ours:
            value = value.reshape((3, config.hidden, *value.shape[1:]))
        params[ours] = value
    state = {"params": params, "trainer": None}
    manager = checkpoint.CheckpointManager(folder)
    manager.save(0, model=state, iteration=0, config=vars(config))


def sample(
    net: GPTModel,
    prompt: list[int],
    count: int,
    vocabulary: int,
    temperature: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
    end: int | None = None,
) -> list[int]:
    """Return the tokens that follow a prompt.

    Parameters
    ----------
    net : GPTModel
    prompt : list of int
        At least one token; prompt and ``count`` together at most ``net.max_length``.
    count : int
        Tokens to write.
    vocabulary : int
        Number of tokens; rows of the table beyond it only pad it.
    temperature : float
        Above 0 divides the scores; 0 takes the most likely token.
    top_k : int
        Draw from the k most likely tokens; 0: from all.
    seed : int
    end : int, optional
        Token at which to stop.
    """
    random = np.random.RandomState(seed)
    cache = net.make_cache(1)
    tokens, written = prompt, []
    for _ in range(count):
        scores = net.decode(mx.nd.array([tokens], dtype="int32"), cache)
        row = scores[0, -1].asnumpy()[:vocabulary].astype("float64")
        if temperature == 0:
            chosen = int(row.argmax())
        else:
            if 0 < top_k < len(row):
                row[row < np.partition(row, -top_k)[-top_k]] = -np.inf
            weights = np.exp((row - row.max()) / temperature)
            chosen = int(random.choice(len(row), p=weights / weights.sum()))
        if chosen == end:
            break
        written.append(chosen)
        tokens = [chosen]
    return written


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoints", required=True, help="folder of checkpoints of pretrain.py")
    add("--import-from", help="file of parameters to write to --checkpoints")
    add("--hidden", type=int, default=768, help="for --import-from")
    add("--layers", type=int, default=12, help="for --import-from")
    add("--heads", type=int, default=12, help="for --import-from")
    add("--tokenizer", help="--out of prepare.py --train-vocab")
    add("--vocab", help="JSON file of tokens and their ids")
    add("--merges", help="file of merges, one a line")
    add("--prompt", default="", help="empty: the end of a document")
    add("--count", type=int, default=100, help="tokens to write")
    add("--temperature", type=float, default=1.0, help="0: always the most likely token")
    add("--top-k", type=int, default=0)
    add("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.import_from:
        sizes = Config(args.hidden, args.layers, args.heads, divisible_by=1)
        import_network(args.import_from, args.checkpoints, sizes)
        return 0
    net, config = load_network(args.checkpoints)
    vocab, merges = args.vocab, args.merges
    if args.tokenizer:
        vocab, merges = f"{args.tokenizer}-vocab.json", f"{args.tokenizer}-merges.txt"
    if not (vocab and merges):
        raise SystemExit("gpt: --tokenizer, or --vocab and --merges, must be given")
    tokenizer: Any = load_tokenizer(vocab, merges)
    end = tokenizer.token_to_id(END)
    prompt = tokenizer.encode(args.prompt).ids or [0 if end is None else end]
    count = min(args.count, config.length - len(prompt))
    if count < 1:
        raise SystemExit(
            f"gpt: the prompt must have at most {config.length} tokens, got {len(prompt)}"
        )
    written = sample(
        net, prompt, count, config.vocabulary, args.temperature, args.top_k, args.seed, end
    )
    print(args.prompt + tokenizer.decode(written))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
