"""Train a network of the model zoo on ImageNet. gluon-cv: ``train_imagenet.py``.

    python train_imagenet.py --use-rec --rec-train train.rec --rec-train-idx train.idx \
        --rec-val val.rec --rec-val-idx val.idx --model resnet50_v1b --mode hybrid \
        --lr-mode cosine --warmup-epochs 5 --num-epochs 90
    mxlite-run -np 8 python train_imagenet.py --use-rec --rec-train train.rec ...

Without ``--use-rec`` it reads the folders ``train`` and ``val`` of ``--data-dir``. Started by
``mxlite-run`` or ``mpirun``, it does what gluon-cv's ``train_horovod.py`` does: every process reads
its part of the records, gradients are averaged, the learning rate is multiplied by the processes,
and rank 0 logs the rate of all of them, in lines ``Epoch[0] Batch[49]`` instead of
``Epoch[0] Batch [50]``.

gluon-cv's DALI readers and its options ``--use-gn`` and ``--use_se`` are not supported. A teacher's
parameters are those of the zoo's cache, as with ``--use-pretrained``, or ``--teacher-params``.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "image_classification"))
import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from distillation import DistillationSoftmaxCrossEntropyLoss
from image_data import imagenet_iters
from mxlite import autograd, gluon
from mxlite.gluon.model_zoo import vision

logger = logging.getLogger("imagenet")
RECORDS = Path("~/.mxnet/datasets/imagenet/rec").expanduser()
JITTER, PCA_NOISE = 0.4, 0.1


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train a network for image classification.")
    add = parser.add_argument
    add("--data-backend", default="mxnet", choices=["mxnet"])
    add("--data-dir", default=str(RECORDS.parent), help="folders train and val of images")
    add("--use-rec", action="store_true", help="read record files instead of --data-dir")
    add("--rec-train", default=str(RECORDS / "train.rec"))
    add("--rec-train-idx", help="by default beside the record file")
    add("--rec-val", default=str(RECORDS / "val.rec"), help="'' for no validation")
    add("--rec-val-idx", help="by default beside the record file")
    add("--num-training-samples", type=int, default=1281167, help="of an epoch, for the schedule")
    add("--num-classes", type=int, default=1000)
    add("-j", "--num-data-workers", "--data-nthreads", type=int, default=4, help="decoding threads")
    add("--batch-size", type=int, default=32, help="images of each device")
    add("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    add("--num-gpus", type=int, default=0, help="GPUs of this process; 0: the CPU")
    add("--no-cuda", action="store_true", help="train on the CPU when started by mxlite-run")
    add("--num-epochs", type=int, default=3)
    add("--max-batches", type=int, default=0, help="end an epoch after so many; 0: never")
    add("--lr", type=float, default=0.1)
    add("--momentum", type=float, default=0.9)
    add("--wd", type=float, default=0.0001)
    add("--lr-mode", default="step", choices=["step", "poly", "cosine"])
    add("--lr-decay", type=float, default=0.1, help="factor of step")
    add("--lr-decay-period", type=int, default=0, help="epochs between steps; 0: --lr-decay-epoch")
    add("--lr-decay-epoch", default="40,60", help="epochs of the steps")
    add("--warmup-lr", type=float, default=0.0)
    add("--warmup-epochs", type=int, default=0)
    add("--last-gamma", action="store_true", help="gamma of a block's last BatchNorm begins at 0")
    add("--mode", default="hybrid", choices=["imperative", "hybrid", "symbolic"])
    add("--model", required=True, help="name in the model zoo")
    add("--batch-norm", action="store_true", help="the form with BatchNorm of a VGG network")
    add("--input-size", type=int, default=224)
    add("--crop-ratio", type=float, default=0.875, help="of validation images")
    add("--use-pretrained", action="store_true")
    add("--mixup", action="store_true", help="mix each batch with itself reversed")
    add("--mixup-alpha", type=float, default=0.2)
    add("--mixup-off-epoch", type=int, default=0, help="epochs without mixup at the end")
    add("--label-smoothing", action="store_true", help="0.1 of the weight for all classes")
    add("--no-wd", action="store_true", help="no weight decay of bias, beta and gamma")
    add("--teacher", help="network of the zoo whose probabilities the network learns, too")
    add("--teacher-params", default="", help="its .params file instead of the zoo's")
    add("--temperature", type=float, default=20.0, help="divides scores before the teacher's loss")
    add("--hard-weight", type=float, default=0.5, help="of the loss against the labels, 0 to 1")
    add("--save-frequency", type=int, default=10)
    add("--save-dir", default="params", help="'' for no files")
    add("--eval-frequency", type=int, default=1, help="epochs between validations; 0: none")
    add("--resume-epoch", type=int, default=0)
    add("--resume-params", default="")
    add("--resume-states", default="")
    add("--log-interval", type=int, default=50)
    add("--logging-file", default="train_imagenet.log")
    add("--rgb-mean", default="123.68,116.779,103.939")
    add("--rgb-std", default="58.393,57.12,57.375")
    add("--seed", type=int, default=0)
    return parser


def checked_options(arguments: list[str] | None) -> argparse.Namespace:
    """Return the command line; SystemExit says which value is required."""
    opt = make_parser().parse_args(arguments)
    for name in ("batch_size", "input_size", "num_classes", "num_training_samples"):
        _expect(getattr(opt, name) >= 1, name, getattr(opt, name), "at least 1")
    counts = ("num_gpus", "num_data_workers", "num_epochs", "max_batches", "lr_decay_period")
    counts += ("warmup_epochs", "mixup_off_epoch", "save_frequency", "eval_frequency")
    for name in (*counts, "log_interval", "lr", "momentum", "wd", "warmup_lr"):
        _expect(getattr(opt, name) >= 0, name, getattr(opt, name), "at least 0")
    _expect(0 < opt.crop_ratio <= 1, "crop_ratio", opt.crop_ratio, "above 0, at most 1")
    _expect(opt.mixup_alpha > 0, "mixup_alpha", opt.mixup_alpha, "above 0")
    _expect(opt.temperature > 0, "temperature", opt.temperature, "above 0")
    _expect(0 <= opt.hard_weight <= 1, "hard_weight", opt.hard_weight, "0 to 1")
    last = opt.num_epochs
    _expect(0 <= opt.resume_epoch <= last, "resume_epoch", opt.resume_epoch, f"0 to {last}")
    for name in ("resume_params", "resume_states", "teacher_params"):
        file = getattr(opt, name)
        _expect(not file or Path(file).exists(), name, file, "an existing file")
    opt.lr_decay_epochs = _numbers(opt.lr_decay_epoch, "lr_decay_epoch", int)
    steps = opt.lr_decay_epochs
    grows = all(a < b for a, b in zip([0, *steps], steps))
    _expect(grows, "lr_decay_epoch", opt.lr_decay_epoch, "increasing epochs above 0")
    opt.moments = _numbers(f"{opt.rgb_mean},{opt.rgb_std}", "rgb_mean and --rgb-std", float)
    _expect(
        len(opt.moments) == 6 and min(opt.moments[3:]) > 0,
        *("rgb_mean and --rgb-std", opt.moments, "three numbers each, deviations above 0"),
    )
    if opt.teacher in ("none", "None", ""):  # gluon-cv's default
        opt.teacher = None
    if opt.batch_norm and not opt.model.endswith("_bn"):
        _expect(opt.model.startswith("vgg"), "batch_norm", opt.model, "used with a VGG network")
        opt.model += "_bn"
    return opt


def _expect(right: bool, name: str, value: Any, expected: str) -> None:
    if not right:
        flag = "--" + name.replace("_", "-")
        raise SystemExit(f"train_imagenet: {flag} must be {expected}, got {value}")


def _numbers(text: str, name: str, kind: Any) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        _expect(False, name, text, "numbers with commas between")
        raise


def started_by_mpi() -> bool:
    """Return whether a launcher has started this process, alone or with others."""
    return "OMPI_COMM_WORLD_SIZE" in os.environ


def existing(path: str, index: str | None) -> tuple[str, str]:
    """Return a record file and its index, both of which must exist."""
    index = index or str(Path(path).with_suffix(".idx"))
    for file, flag in ((path, "--rec-train or --rec-val"), (index, "its -idx option")):
        if not Path(file).exists():
            raise SystemExit(f"train_imagenet: {file} does not exist; give it with {flag}")
    return path, index


def record_iterators(opt: argparse.Namespace, batch_size: int) -> tuple:
    """Return iterators over the training and the validation records of this rank."""
    shape = (3, opt.input_size, opt.input_size)
    names = ("mean_r", "mean_g", "mean_b", "std_r", "std_g", "std_b")
    common = dict(zip(names, opt.moments), data_shape=shape, batch_size=batch_size)
    common.update(preprocess_threads=opt.num_data_workers)
    common.update(num_parts=hvd.size(), part_index=hvd.rank())
    record, index = existing(opt.rec_train, opt.rec_train_idx)
    train = mx.io.ImageRecordIter(
        path_imgrec=record,
        path_imgidx=index,
        shuffle=True,
        random_resized_crop=True,
        min_aspect_ratio=3 / 4,
        max_aspect_ratio=4 / 3,
        min_random_area=0.08,
        max_random_area=1.0,
        rand_mirror=True,
        brightness=JITTER,
        contrast=JITTER,
        saturation=JITTER,
        pca_noise=PCA_NOISE,
        seed=opt.seed,
        **common,
    )
    if not opt.rec_val:
        return train, None
    record, index = existing(opt.rec_val, opt.rec_val_idx)
    side = round(opt.input_size / opt.crop_ratio)
    return train, mx.io.ImageRecordIter(
        path_imgrec=record, path_imgidx=index, resize=side, **common
    )


def schedule(opt: argparse.Namespace, batches: int, rate: float) -> Any:
    """Return the learning rate of each update: warm-up, then the mode's curve."""
    warm = {
        "base_lr": rate,
        "warmup_steps": opt.warmup_epochs * batches,
        "warmup_begin_lr": opt.warmup_lr,
    }
    updates = opt.num_epochs * batches
    if opt.lr_mode == "poly":
        return mx.lr_scheduler.PolyScheduler(updates, pwr=2, **warm)
    if opt.lr_mode == "cosine":
        return mx.lr_scheduler.CosineScheduler(updates, **warm)
    if opt.lr_decay_period:
        epochs = list(range(opt.lr_decay_period, opt.num_epochs, opt.lr_decay_period))
    else:
        epochs = opt.lr_decay_epochs
    steps = [epoch * batches for epoch in epochs] or [updates]
    return mx.lr_scheduler.MultiFactorScheduler(steps, opt.lr_decay, **warm)


class Classifier:
    """A network in training.

    Parameters
    ----------
    opt : argparse.Namespace
        The command line.
    """

    def __init__(self, opt: argparse.Namespace) -> None:
        self.opt, self.mpi = opt, started_by_mpi()
        hvd.init()
        self.leads = hvd.rank() == 0
        if self.mpi and not opt.no_cuda and mx.context.num_gpus():
            self.context = [mx.gpu(hvd.local_rank())]
        else:
            self.context = [mx.gpu(i) for i in range(opt.num_gpus)] or [mx.cpu()]
        self.batch_size = opt.batch_size * len(self.context)
        self.samples = self.batch_size * hvd.size()  # number of samples in a step of all processes
        self.train_data, self.val_data = self._iterators()
        self.batches = self._batches()
        self.net = self._network()
        self.trainer = self._trainer()
        self.teacher = self._teacher()
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=not self._soft())
        if self.teacher is not None:
            self.loss = DistillationSoftmaxCrossEntropyLoss(
                opt.temperature, opt.hard_weight, sparse_label=not self._soft()
            )
        self.metric = mx.metric.RMSE() if self._soft() else mx.metric.Accuracy()
        self.best = 1.0

    def _soft(self) -> bool:
        return self.opt.mixup or self.opt.label_smoothing

    def _iterators(self) -> tuple:
        opt = self.opt
        if opt.use_rec:
            return record_iterators(opt, self.batch_size)
        if hvd.size() > 1:
            raise SystemExit("train_imagenet: several processes need --use-rec")
        return imagenet_iters(opt.data_dir, self.batch_size, opt.num_data_workers, opt.input_size)

    def _batches(self) -> int:
        """Return the batches of an epoch, the same on all ranks although their parts differ."""
        found = getattr(self.train_data, "num_batches", None)
        if found is None:
            found = -(-self.train_data.num_records // self.batch_size)
        if self.opt.max_batches:
            found = min(found, self.opt.max_batches)
        mine = mx.nd.array([found], dtype="int32")
        return int(hvd.allreduce(mine, op=hvd.Min, name="batches").asscalar())

    def _network(self) -> Any:
        opt = self.opt
        options = {"pretrained": opt.use_pretrained}
        if opt.last_gamma:
            options["last_gamma"] = True
        net = self._zoo_network(opt.model, **options)
        if opt.resume_params:
            net.load_parameters(opt.resume_params, ctx=self.context)
        elif not opt.use_pretrained:
            # The two scripts of gluon-cv use different initializers.
            init = mx.init.Xavier("gaussian", "in", 2) if self.mpi else mx.init.MSRAPrelu()
            net.initialize(init, ctx=self.context)
        net.cast(opt.dtype)
        if opt.no_wd:
            for parameter in net.collect_params(".*beta|.*gamma|.*bias").values():
                parameter.wd_mult = 0.0
        if opt.mode != "imperative":
            net.hybridize(static_alloc=True, static_shape=True)
        size = opt.input_size
        net(mx.nd.zeros((1, 3, size, size), ctx=self.context[0], dtype=opt.dtype))  # infers shapes
        return net

    def _zoo_network(self, name: str, **options: Any) -> Any:
        """Return a network of the zoo; SystemExit names what is missing."""
        try:
            return vision.get_model(name, classes=self.opt.num_classes, ctx=self.context, **options)
        except (ValueError, FileNotFoundError) as error:  # names and files that do not exist
            raise SystemExit(f"train_imagenet: {error}") from None
        except TypeError as error:
            if "last_gamma" not in str(error):
                raise
            raise SystemExit(
                "train_imagenet: --last-gamma must be used with a network such as resnet50_v1b, "
                f"got {name}"
            ) from None

    def _teacher(self) -> Any:
        """Return the network to learn from, None without ``--teacher``."""
        opt = self.opt
        if opt.teacher is None or opt.hard_weight == 1:
            return None
        net = self._zoo_network(opt.teacher, pretrained=not opt.teacher_params)
        if opt.teacher_params:
            net.load_parameters(opt.teacher_params, ctx=self.context)
        net.cast(opt.dtype)
        net.hybridize(static_alloc=True, static_shape=True)
        return net

    def _losses(self, data: list, outputs: list, label: list) -> list:
        """Return the loss of each device's part."""
        outputs = [output.astype("float32") for output in outputs]
        if self.teacher is None:
            return [self.loss(output, part) for output, part in zip(outputs, label)]
        with autograd.pause(train_mode=False):
            scores = [self.teacher(part).astype("float32") for part in data]
            targets = [(score / self.opt.temperature).softmax() for score in scores]
        return [self.loss(*parts) for parts in zip(outputs, label, targets)]

    def _trainer(self) -> Any:
        opt, params = self.opt, self.net.collect_params()
        planned = max(1, opt.num_training_samples // self.samples)
        options = {
            "wd": opt.wd,
            "momentum": opt.momentum,
            "lr_scheduler": schedule(opt, planned, opt.lr * hvd.size()),
            "multi_precision": opt.dtype != "float32",
        }
        if self.mpi:
            hvd.broadcast_parameters(params, root_rank=0)
            trainer = hvd.DistributedTrainer(params, "nag", options)
        else:
            trainer = gluon.Trainer(params, "nag", options)
        if opt.resume_states:
            trainer.load_states(opt.resume_states)
        return trainer

    def _parts(self, batch: Any) -> tuple:
        split = gluon.utils.split_and_load
        data = batch.data[0].astype(self.opt.dtype)
        return split(data, self.context), split(batch.label[0], self.context)

    def _soften(self, data: list, label: list, epoch: int) -> tuple:
        """Return the data and the probabilities of all classes."""
        opt, share = self.opt, 1.0
        if opt.mixup and epoch < opt.num_epochs - opt.mixup_off_epoch:
            share = np.random.beta(opt.mixup_alpha, opt.mixup_alpha)
        smooth = 0.1 if opt.label_smoothing else 0.0
        classes = opt.num_classes
        on, off = 1 - smooth + smooth / classes, smooth / classes
        targets = [part.one_hot(classes, on_value=on, off_value=off) for part in label]
        if share == 1.0:
            return data, targets
        mixed = [share * part + (1 - share) * part[::-1] for part in data]
        return mixed, [share * part + (1 - share) * part[::-1] for part in targets]

    def _log_batch(self, epoch: int, count: int, batches: int, seconds: float) -> None:
        name, value = self.metric.get()
        shown = f"Batch[{count - 1}]" if self.mpi else f"Batch [{count}]"
        text = f"Epoch[{epoch}] {shown}\tSpeed: {self.samples * batches / seconds:f} samples/sec"
        logger.info(f"{text}\t{name}={value:f}\tlr={self.trainer.learning_rate:f}")

    def train_epoch(self, epoch: int) -> None:
        """Train one epoch, and log its rate."""
        self.train_data.reset()
        self.metric.reset()
        begin = tic = time.time()
        count = 0
        for batch in self.train_data:
            if count == self.batches:
                break
            data, label = self._parts(batch)
            if self._soft():
                data, label = self._soften(data, label, epoch)
            with autograd.record():
                outputs = [self.net(part) for part in data]
                losses = self._losses(data, outputs, label)
            autograd.backward(losses)
            self.trainer.step(self.batch_size)
            if self._soft():
                outputs = [output.softmax() for output in outputs]
            self.metric.update(label, outputs)
            count += 1
            if self.opt.log_interval and count % self.opt.log_interval == 0:
                self._log_batch(epoch, count, self.opt.log_interval, time.time() - tic)
                tic = time.time()
        rest = count % self.opt.log_interval if self.opt.log_interval else 0
        if rest and not self.mpi:
            self._log_batch(epoch, count, rest, time.time() - tic)
        mx.nd.waitall()
        seconds = time.time() - begin
        name, value = self.metric.get()
        logger.info("[Epoch %d] training: %s=%f", epoch, name, value)
        rate = self.samples * count / seconds
        logger.info("[Epoch %d] speed: %d samples/sec\ttime cost: %f", epoch, rate, seconds)

    def validate(self) -> tuple[float, float]:
        """Return the top-1 and top-5 errors over the samples of all processes."""
        top1, top5 = mx.metric.Accuracy(), mx.metric.TopKAccuracy(5)
        self.val_data.reset()
        for batch in self.val_data:
            real = batch.data[0].shape[0] - (batch.pad or 0)
            data, label = self._parts(batch)
            outputs = [self.net(part) for part in data]
            if len(outputs) == 1:  # padding of the last batch does not count
                outputs, label = [outputs[0][:real]], [label[0][:real]]
            top1.update(label, outputs)
            top5.update(label, outputs)
        sums = mx.nd.array([top1.sum_metric, top5.sum_metric, top1.num_inst])
        right, among, count = hvd.allreduce(sums, op=hvd.Sum, name="validation").asnumpy()
        return 1 - float(right) / float(count), 1 - float(among) / float(count)

    def save(self, name: str) -> None:
        """Save parameters and the optimizer's states in rank 0."""
        if self.leads and self.opt.save_dir:
            folder = Path(self.opt.save_dir)
            folder.mkdir(parents=True, exist_ok=True)
            self.net.save_parameters(str(folder / f"{name}.params"))
            self.trainer.save_states(str(folder / f"{name}.states"))

    def train(self) -> None:
        """Train all epochs."""
        opt, begin = self.opt, time.time()
        for epoch in range(opt.resume_epoch, opt.num_epochs):
            self.train_epoch(epoch)
            if self.val_data and opt.eval_frequency and (epoch + 1) % opt.eval_frequency == 0:
                wrong1, wrong5 = self.validate()
                text = "[Epoch %d] validation: err-top1=%f err-top5=%f"
                logger.info(text, epoch, wrong1, wrong5)
                if wrong1 < self.best:
                    self.best = wrong1
                    self.save(f"{wrong1:.4f}-imagenet-{opt.model}-{epoch}-best")
            if opt.save_frequency and (epoch + 1) % opt.save_frequency == 0:
                self.save(f"imagenet-{opt.model}-{epoch}")
        logger.info(
            "Training time for %d epochs: %f sec.",
            opt.num_epochs - opt.resume_epoch,
            time.time() - begin,
        )


def main() -> None:
    opt = checked_options(None)
    hvd.init()
    logger.propagate = False  # the root logger prints, too, once a library has used it
    if hvd.rank() == 0:
        logger.setLevel(logging.INFO)
        logger.addHandler(logging.StreamHandler())
        if opt.logging_file:
            Path(opt.logging_file).resolve().parent.mkdir(parents=True, exist_ok=True)
            logger.addHandler(logging.FileHandler(opt.logging_file))
    else:
        logger.setLevel(logging.WARNING)
    logger.info(opt)
    mx.random.seed(opt.seed)
    np.random.seed(opt.seed)
    Classifier(opt).train()


if __name__ == "__main__":
    main()
