"""Options of training, and training of a symbol by ``mx.mod.Module``."""

from __future__ import annotations

import argparse
import logging
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import mxlite as mx
import numpy as np

# The optimizers with momentum, and those with a warm-up of the learning rate of their own.
_WITH_MOMENTUM = {"sgd", "dcasgd", "nag", "signum", "lbsgd"}
_WITH_WARMUP = {"lbsgd", "lbnag"}
_INITIALIZERS = {
    "xavier": mx.init.Xavier,
    "msra": mx.init.MSRAPrelu,
    "orthogonal": mx.init.Orthogonal,
    "normal": mx.init.Normal,
    "uniform": mx.init.Uniform,
    "one": mx.init.One,
    "zero": mx.init.Zero,
}


def add_fit_args(parser: argparse.ArgumentParser) -> Any:
    """Add the options of training: names and defaults of MXNet 1.x, and ``--seed``."""
    group = parser.add_argument_group("training")
    add = group.add_argument
    add("--network", type=str, help="name of a network in symbols/")
    add("--num-layers", type=int, help="depth, for networks that come in several")
    add("--gpus", type=str, help="GPUs such as 0,2,5; none: the CPU")
    add("--kv-store", type=str, default="device", help="type of the key-value store")
    add("--num-epochs", type=int, default=100, help="train up to this epoch")
    add("--lr", type=float, default=0.1, help="learning rate at the beginning")
    add("--lr-factor", type=float, default=0.1, help="the rate is multiplied by it at each step")
    add("--lr-step-epochs", type=str, help="epochs of the steps such as 30,60; or pow2: polynomial")
    add(
        "--initializer",
        type=str,
        default="default",
        choices=["default", *_INITIALIZERS],
        help="first values of the parameters; default: what suits the network",
    )
    add("--optimizer", type=str, default="sgd", help="name of the optimizer")
    add("--mom", type=float, default=0.9, help="momentum")
    add("--wd", type=float, default=0.0001, help="weight decay")
    add("--batch-size", type=int, default=128, help="images of a batch on all devices together")
    add("--disp-batches", type=int, default=20, help="batches between lines of the log")
    add("--model-prefix", type=str, help="path and begin of the name of checkpoints")
    add("--save-period", type=int, default=1, help="epochs between checkpoints")
    add("--monitor", type=int, default=0, help="log all arrays' sizes every so many batches")
    add("--load-epoch", type=int, help="continue from the checkpoint of this epoch")
    add("--top-k", type=int, default=0, help="report this top-k accuracy, too")
    add("--loss", type=str, default="", help="report losses, too: ce, nll_loss, with commas")
    add("--test-io", type=int, default=0, help="1: only read the images, and say how fast")
    add(
        "--dtype",
        type=str,
        default="float32",
        choices=["float32", "float16", "bfloat16"],
        help="type that the network computes in",
    )
    add("--gc-type", type=str, default="none", help="compression of gradients: 2bit or none")
    add("--gc-threshold", type=float, default=0.5, help="threshold of 2bit compression")
    add("--macrobatch-size", type=int, default=0, help="batch of all machines, for lbsgd")
    add("--warmup-epochs", type=int, default=5, help="epochs in which lbsgd's rate goes up")
    add("--warmup-strategy", type=str, default="linear", help="how lbsgd's rate goes up")
    add(
        "--profile-worker-suffix",
        type=str,
        default="",
        help="write a profile to this file; with several workers rank<n>_ is put before",
    )
    add("--profile-server-suffix", type=str, default="", help="the same for servers")
    add(
        "--use-imagenet-data-augmentation",
        type=int,
        default=0,
        help="1: other defaults of augmentation (train_imagenet.py)",
    )
    add(
        "--seed",
        type=int,
        help="seed of all that is random but pictures",
    )
    return group


def get_epoch_size(args: argparse.Namespace, kv: Any) -> int:
    """Return the number of batches of each worker in an epoch."""
    return math.ceil(int(args.num_examples / kv.num_workers) / args.batch_size)


def get_lr_scheduler(args: argparse.Namespace, kv: Any) -> tuple:
    """Return the learning rate at the first epoch that is trained, and its scheduler.

    Parameters
    ----------
    args : argparse.Namespace
        ``lr``, ``lr_factor`` (1 or more: constant rate), ``lr_step_epochs``, ``num_epochs``,
        ``load_epoch``, ``num_examples``, ``batch_size``.
    kv : KVStore
        Store, which has the number of workers.

    Returns
    -------
    (float, LRScheduler or None)
    """
    if args.lr_factor >= 1 or not args.lr_step_epochs:
        return args.lr, None
    epoch_size = get_epoch_size(args, kv)
    if "pow" in args.lr_step_epochs:
        power = float(re.sub("pow[- ]*", "", args.lr_step_epochs))
        updates = args.num_epochs * epoch_size
        return args.lr, mx.lr_scheduler.PolyScheduler(updates, args.lr, power)
    begin = args.load_epoch or 0
    epochs = [int(epoch) for epoch in args.lr_step_epochs.split(",")]
    lr = args.lr * args.lr_factor ** sum(epoch <= begin for epoch in epochs)
    if lr != args.lr:
        logging.info("Adjust learning rate to %e for epoch %d", lr, begin)
    steps = [epoch_size * (epoch - begin) for epoch in epochs if epoch > begin]
    if not steps:
        return lr, None
    return lr, mx.lr_scheduler.MultiFactorScheduler(
        step=steps, factor=args.lr_factor, base_lr=args.lr
    )


def load_model(args: argparse.Namespace, network: Any, rank: int) -> tuple:
    """Return the parameters from which training continues.

    Parameters
    ----------
    args : argparse.Namespace
        ``load_epoch`` (None: nothing is loaded) and ``model_prefix``.
    network : Symbol
        The checkpoint must be of the same one.
    rank : int
        A worker's own checkpoint ``<prefix>-<rank>`` is preferred.

    Returns
    -------
    (dict or None, dict or None)
        Arguments and auxiliary states.

    Raises
    ------
    ValueError
        If there is no prefix, or the checkpoint is of another network.
    """
    if args.load_epoch is None:
        return None, None
    if args.model_prefix is None:
        raise ValueError(f"--model-prefix must be given with --load-epoch {args.load_epoch}")
    prefix = args.model_prefix
    if rank > 0 and os.path.exists(f"{prefix}-{rank}-symbol.json"):
        prefix += f"-{rank}"
    symbol, arg_params, aux_params = mx.model.load_checkpoint(prefix, args.load_epoch)
    logging.info("Loaded model %s_%04d.params", prefix, args.load_epoch)
    if symbol.tojson() != network.tojson():
        raise ValueError(
            f"{prefix}-symbol.json is not the network that the options describe: give the options "
            "that it was trained with"
        )
    return arg_params, aux_params


def choose_initializer(args: argparse.Namespace) -> Any:
    """Return the requested initializer, or the one that suits the network."""
    if args.initializer != "default":
        return _INITIALIZERS[args.initializer]()
    network = args.network or ""
    if network == "alexnet":
        return mx.init.Normal()
    if "vgg" in network:
        return mx.init.Xavier()
    return mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)


def choose_metrics(args: argparse.Namespace, network: Any) -> list:
    """Return accuracy, and what ``--top-k`` and ``--loss`` add."""
    metrics = ["accuracy"]
    if args.top_k > 0:
        metrics.append(mx.metric.create("top_k_accuracy", top_k=args.top_k))
    losses = [name.strip() for name in args.loss.split(",")] if args.loss else []
    if losses and "softmax_output" not in network.list_outputs():
        logging.warning("The output is not softmax_output, loss argument will be skipped!")
        return metrics
    for name in losses:
        if name in ("ce", "nll", "nll_loss"):
            metrics.append(mx.metric.create("nll_loss" if name == "nll" else name))
        else:
            logging.warning("--loss %s: not known, expected ce or nll_loss", name)
    return metrics


def optimizer_params(args: argparse.Namespace, kv: Any) -> dict:
    """Return the optimizer's arguments."""
    lr, scheduler = get_lr_scheduler(args, kv)
    params = {
        "learning_rate": lr,
        "wd": args.wd,
        "lr_scheduler": scheduler,
        "multi_precision": True,
    }
    if args.optimizer in _WITH_MOMENTUM:
        params["momentum"] = args.mom
    if args.optimizer in _WITH_WARMUP:
        global_batch = args.batch_size * kv.num_workers
        params.update(
            updates_per_epoch=max(get_epoch_size(args, kv), 1),
            begin_epoch=args.load_epoch or 0,
            batch_scale=math.ceil(max(args.macrobatch_size, global_batch) / global_batch),
            warmup_strategy=args.warmup_strategy,
            warmup_epochs=args.warmup_epochs,
            num_epochs=args.num_epochs,
        )
    return params


def measure_io(args: argparse.Namespace, train: Any) -> None:
    """Read an epoch of training data and log the speed."""
    begin = time.time()
    for number, batch in enumerate(train):
        for array in batch.data:
            array.wait_to_read()
        if (number + 1) % args.disp_batches == 0:
            images = args.disp_batches * args.batch_size
            speed = images / (time.time() - begin)
            logging.info("Batch [%d]\tSpeed: %.2f samples/sec", number, speed)
            begin = time.time()


@contextmanager
def profiled(args: argparse.Namespace, kv: Any) -> Iterator[None]:
    """Profile the code inside the with block if a file was named."""
    prefix = f"rank{kv.rank}_" if kv.num_workers > 1 else ""
    files = {"server": args.profile_server_suffix}
    if args.profile_worker_suffix:
        files["worker"] = prefix + args.profile_worker_suffix
    processes = [process for process, filename in files.items() if filename]
    for process in processes:
        mx.profiler.set_config(filename=files[process], profile_all=True, profile_process=process)
        mx.profiler.set_state(state="run", profile_process=process)
    try:
        yield
    finally:
        for process in processes:
            mx.profiler.set_state(state="stop", profile_process=process)
            mx.profiler.dump(profile_process=process)


def fit(
    args: argparse.Namespace, network: Any, data_loader: Callable[..., tuple], **kwargs: Any
) -> Any:
    """Train a network.

    Parameters
    ----------
    args : argparse.Namespace
        Values of `add_fit_args`'s options, and ``num_examples``.
    network : Symbol
    data_loader : callable
        ``data_loader(args, kv)`` returns iterators over training and validation data.
    **kwargs
        ``arg_params`` and ``aux_params`` to begin from; ``batch_end_callback``, one or a list.

    Returns
    -------
    Module or None
        The trained module; None after ``--test-io 1``.
    """
    kv = mx.kvstore.create(args.kv_store)
    if args.gc_type != "none":
        kv.set_gradient_compression({"type": args.gc_type, "threshold": args.gc_threshold})
    if args.seed is not None:
        mx.random.seed(args.seed)
        np.random.seed(args.seed)
    logging.info("start with arguments %s", args)
    train, val = data_loader(args, kv)
    if "dist" in args.kv_store and "async" not in args.kv_store:
        # Gives all workers the same number of batches, because they wait for each other.
        batches = get_epoch_size(args, kv)
        logging.info("Resizing training data to %d batches per machine", batches)
        train = mx.io.ResizeIter(train, batches)
    if args.test_io:
        measure_io(args, train)
        return None

    if "arg_params" in kwargs and "aux_params" in kwargs:
        arg_params, aux_params = kwargs["arg_params"], kwargs["aux_params"]
    else:
        arg_params, aux_params = load_model(args, network, kv.rank)
    checkpoint = None
    if args.model_prefix is not None:
        prefix = args.model_prefix if kv.rank == 0 else f"{args.model_prefix}-{kv.rank}"
        checkpoint = mx.callback.do_checkpoint(prefix, period=args.save_period)
    callbacks = [mx.callback.Speedometer(args.batch_size, args.disp_batches)]
    more = kwargs.get("batch_end_callback", [])
    callbacks += more if isinstance(more, list) else [more]

    devices = [mx.gpu(int(number)) for number in args.gpus.split(",")] if args.gpus else mx.cpu()
    module = mx.mod.Module(symbol=network, context=devices)
    with profiled(args, kv):
        module.fit(
            train,
            begin_epoch=args.load_epoch or 0,
            num_epoch=args.num_epochs,
            eval_data=val,
            eval_metric=choose_metrics(args, network),
            kvstore=kv,
            optimizer=args.optimizer,
            optimizer_params=optimizer_params(args, kv),
            initializer=choose_initializer(args),
            arg_params=arg_params,
            aux_params=aux_params,
            batch_end_callback=callbacks,
            epoch_end_callback=checkpoint,
            allow_missing=True,
            monitor=mx.mon.Monitor(args.monitor, pattern=".*") if args.monitor > 0 else None,
        )
    return module
