"""One image pipeline in its process: builds it, then times passes over the data on request.

Started by pipeline.py in the system's own environment (Python 3.8 and later). Requests come as JSON
lines on standard input, answers are JSON lines on standard output:

    {"do": "prepare"}   build, one pass   -> {"version", "mean", "shape"}
    {"do": "time"}      two passes        -> {"seconds", "images"} of the second
"""

import argparse
import json
import os
import sys
import time
import traceback

MEAN, STD = (123.68, 116.28, 103.53), (58.395, 57.12, 57.375)
SIDE, CROP = 256, 224


class RecordIter:
    """ImageRecordIter of mxlite or of MXNet 1.9.1."""

    def __init__(self, mx, options):
        self.version = mx.__version__
        names = dict(zip(("mean_r", "mean_g", "mean_b", "std_r", "std_g", "std_b"), MEAN + STD))
        self.iterator = mx.io.ImageRecordIter(
            path_imgrec=options.record,
            path_imgidx=options.record[:-3] + "idx",
            data_shape=(3, CROP, CROP),
            batch_size=options.batch,
            resize=SIDE,
            rand_crop=1,
            rand_mirror=1,
            shuffle=1,
            round_batch=1,
            preprocess_threads=options.threads,
            prefetch_buffer=4,
            ctx="cpu",
            verbose=0,
            **names,
        )

    def epoch(self):
        """Read everything once; return the number of images."""
        images = 0
        for batch in self.iterator:
            batch.data[0].wait_to_read()
            images += batch.data[0].shape[0] - batch.pad
            self.last = batch.data[0]
        self.iterator.reset()
        return images

    def output(self):
        """Return the last batch as numpy.ndarray."""
        return self.last.asnumpy()


def mxlite_pipeline(options):
    import mxlite

    return RecordIter(mxlite, options)


def mxnet_pipeline(options):
    import mxnet

    return RecordIter(mxnet, options)


class Dali:
    """NVIDIA DALI on the CPU alone."""

    def __init__(self, options):
        import nvidia.dali as dali
        from nvidia.dali import fn, types

        self.version = dali.__version__
        self.images, self.batch = options.images, options.batch
        pipe = dali.Pipeline(options.batch, options.threads, None, prefetch_queue_depth=4)
        with pipe:
            files, _ = fn.readers.mxnet(
                path=options.record, index_path=options.record[:-3] + "idx", random_shuffle=True
            )
            pictures = fn.decoders.image(files, device="cpu", output_type=types.RGB)
            pictures = fn.resize(
                pictures, resize_shorter=SIDE, interp_type=types.INTERP_LINEAR, antialias=False
            )
            pipe.set_outputs(
                fn.crop_mirror_normalize(
                    pictures,
                    crop=(CROP, CROP),
                    crop_pos_x=fn.random.uniform(range=(0, 1)),
                    crop_pos_y=fn.random.uniform(range=(0, 1)),
                    mirror=fn.random.coin_flip(),
                    mean=list(MEAN),
                    std=list(STD),
                    dtype=types.FLOAT,
                    output_layout="CHW",
                )
            )
        pipe.build()
        self.pipe = pipe

    def epoch(self):
        """Read everything once; return the number of images."""
        steps = -(-self.images // self.batch)
        for _ in range(steps):
            (self.last,) = self.pipe.run()
        return steps * self.batch

    def output(self):
        """Return the last batch as numpy.ndarray."""
        return self.last.as_array()


class Pictures:
    """The record's pictures with torchvision's transforms, for a DataLoader."""

    def __init__(self, options):
        from torchvision import transforms

        with open(options.record[:-3] + "idx") as lines:
            self.offsets = [int(line.split()[1]) for line in lines]
        self.path, self.file = options.record, None
        self.transform = transforms.Compose(
            [
                transforms.Resize(SIDE),
                transforms.RandomCrop(CROP),
                transforms.RandomHorizontalFlip(),
                transforms.PILToTensor(),
                transforms.ConvertImageDtype(__import__("torch").float32),
                transforms.Normalize([m / 255 for m in MEAN], [s / 255 for s in STD]),
            ]
        )

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, index):
        import io
        import struct

        from PIL import Image

        if self.file is None:
            self.file = open(self.path, "rb")  # noqa: SIM115 - as long as the worker
        self.file.seek(self.offsets[index])
        _, word = struct.unpack("<II", self.file.read(8))
        record = self.file.read(word & ((1 << 29) - 1))
        _, label = struct.unpack_from("<If", record)
        return self.transform(Image.open(io.BytesIO(record[24:])).convert("RGB")), label


class Torch:
    """PyTorch's DataLoader over Pillow and torchvision, one process for each thread."""

    def __init__(self, options):
        import torch
        import torchvision

        self.version = f"{torch.__version__}, torchvision {torchvision.__version__}"
        torch.set_num_threads(1)
        self.loader = torch.utils.data.DataLoader(
            Pictures(options),
            options.batch,
            shuffle=True,
            num_workers=options.threads,
            persistent_workers=True,
            prefetch_factor=4,
        )

    def epoch(self):
        """Read everything once; return the number of images."""
        images = 0
        for data, _ in self.loader:
            images += data.shape[0]
            self.last = data
        return images

    def output(self):
        """Return the last batch as numpy.ndarray."""
        return self.last.numpy()


class BareDecode:
    """Decodes whole pictures with libjpeg-turbo only, with the same number of threads."""

    def __init__(self, options):
        import mxlite
        from mxlite import _core

        self.version = mxlite.__version__
        self.decode, self.threads = _core.decode_image, options.threads
        self.pictures = []
        with mxlite.recordio.MXRecordIO(options.record, "r") as file:
            for record in iter(file.read, None):
                self.pictures.append(mxlite.recordio.unpack(record)[1])

    def epoch(self):
        """Read everything once; return the number of images."""
        import threading

        def run(part):
            for picture in part:
                self.last = self.decode(picture)

        parts = [self.pictures[i :: self.threads] for i in range(self.threads)]
        threads = [threading.Thread(target=run, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(self.pictures)

    def output(self):
        """Return the last batch as numpy.ndarray."""
        return self.last.asnumpy()[None]


SYSTEMS = {
    "mxlite": mxlite_pipeline,
    "mxnet": mxnet_pipeline,
    "dali": Dali,
    "torch": Torch,
    "decode": BareDecode,
}


def main():
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", required=True, choices=sorted(SYSTEMS))
    parser.add_argument("--record", required=True)
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    # Writes answers to a copy of file descriptor 1, because libraries print to descriptor 1.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    pipeline = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                pipeline = SYSTEMS[options.system](options)
                pipeline.epoch()
                output = pipeline.output()
                answer = {
                    "version": pipeline.version,
                    "mean": float(output.mean()),
                    "shape": list(output.shape),
                }
            else:
                pipeline.epoch()  # uses up batches that were prefetched during other turns
                begin = time.perf_counter()
                images = pipeline.epoch()
                answer = {"seconds": time.perf_counter() - begin, "images": images}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
