"""Starts examples/gluon/train_imagenet.py on MXNet 1.9.1 or mxlite (Python 3.8 and later).

    python start.py OUT.json mxnet|mxlite augmented|plain options of train_imagenet.py...

No line of the example is changed. On MXNet ``import mxlite`` gives MXNet, together with what the
example needs beyond it: ResNet-50 v1b, and Horovod's functions for a single process. ``plain``
reads the pictures in the order of the file and without random changes, so that both sides get the
same batches. OUT.json lists the loss of every step and, of plain runs, sums of every batch.
"""

import json
import runpy
import sys
import types
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "gluon" / "train_imagenet.py"
# Options of ImageRecordIter that a plain run leaves out.
RANDOM = ("shuffle", "random_resized_crop", "rand_mirror", "min_aspect_ratio", "max_aspect_ratio")
RANDOM += ("min_random_area", "max_random_area", "brightness", "contrast", "saturation")
RANDOM += ("pca_noise", "seed")
# The smallest share of a picture in a crop. Smaller crops often miss the picture's letter.
MIN_AREA = 0.6


def one_process():
    """Return a module with the functions of horovod that the example calls, for one process."""
    module = types.ModuleType("mxlite.horovod")
    module.init = lambda: None
    module.size = lambda: 1
    module.rank = module.local_rank = lambda: 0
    module.Min = module.Sum = None
    module.allreduce = lambda array, op, name: array
    return module


def use_mxnet():
    """Make ``import mxlite`` give MXNet."""
    import mxnet
    import mxnet.contrib.io
    from mxnet.gluon.model_zoo import vision

    for name, module in list(sys.modules.items()):
        if name == "mxnet" or name.startswith("mxnet."):
            sys.modules["mxlite" + name[len("mxnet") :]] = module
    mxnet.horovod = sys.modules["mxlite.horovod"] = one_process()
    # Replaces the module that reads folders of images, because its imports need more of mxlite.
    sys.modules["image_data"] = types.ModuleType("image_data")
    sys.modules["image_data"].imagenet_iters = None
    import resnet_v1b

    vision.get_model = resnet_v1b.get_model


def noted_reader(make, plain, sums):
    """Return a class that reads like ``make``, knows its number of batches, and notes sums.

    Parameters
    ----------
    make : callable
        ImageRecordIter.
    plain : bool
        Whether to leave out random changes, and to note the sums.
    sums : list
        Gets sums of pictures and labels of each batch.
    """

    class Reader:
        def __init__(self, **options):
            if "min_random_area" in options:
                options["min_random_area"] = MIN_AREA
            if plain:
                options = {k: v for k, v in options.items() if k not in RANDOM}
            records = len(Path(options["path_imgidx"]).read_text().splitlines())
            self.num_batches = -(-records // options["batch_size"])
            self._reader = make(**options)

        def __iter__(self):
            return self

        def __next__(self):
            batch = self._reader.next()
            if plain:
                parts = (batch.data[0], batch.label[0])
                sums.append([float(part.astype("float64").sum().asscalar()) for part in parts])
            return batch

        def reset(self):
            self._reader.reset()

    return Reader


def note_losses(mx, losses):
    """Append the mean of each batch's loss to ``losses``, as arrays that are read at the end."""
    kind = mx.gluon.loss.SoftmaxCrossEntropyLoss
    call = kind.__call__

    def noted(self, *args):
        loss = call(self, *args)
        with mx.autograd.pause():
            losses.append(loss.mean())
        return loss

    kind.__call__ = noted


def main():
    """Run the example with the options that follow."""
    out, side, kind = sys.argv[1:4]
    sys.argv = [str(SCRIPT), *sys.argv[4:]]
    sys.path.insert(0, str(SCRIPT.parent))
    if side == "mxnet":
        use_mxnet()
    import mxlite as mx

    losses, sums = [], []
    mx.io.ImageRecordIter = noted_reader(mx.io.ImageRecordIter, kind == "plain", sums)
    note_losses(mx, losses)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    notes = {"losses": [float(loss.asscalar()) for loss in losses], "batches": sums}
    notes["runtime"] = "{} {}".format("MXNet" if side == "mxnet" else "mxlite", mx.__version__)
    Path(out).write_text(json.dumps(notes))


if __name__ == "__main__":
    main()
