"""Decode JPEG photographs and run a model-zoo network on them.

    python examples/classify/classify.py                          scikit-learn's and scikit-image's
    python examples/classify/classify.py cat.jpg --network resnet50_v1 --params resnet50_v1.params

Parameter files are those of MXNet 1.9.1's model zoo (or of save_parameters). Without such a file
the weights are random: the script says so and shows shapes, timing and indices only.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import mxlite as mx
from mxlite import image, nd
from mxlite.gluon.model_zoo import vision

# Mean and standard deviation of ImageNet's colors, as the zoo's networks were trained.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def bundled_photographs() -> list[str]:
    """Return the JPEG files that scikit-learn and scikit-image install."""
    import importlib.util

    found: list[str] = []
    for package, folder in (("sklearn", "datasets/images"), ("skimage", "data")):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            root = Path(next(iter(spec.submodule_search_locations))) / folder
            found += sorted(str(p) for p in root.glob("*.jp*g"))
    return found


def prepare(path: str, size: int) -> nd.NDArray:
    """Return one photograph as float32 (1, 3, size, size), resized, cropped and normalized."""
    picture = image.imread(path)
    picture = image.resize_short(picture, size * 256 // 224)
    picture, _ = image.center_crop(picture, (size, size))
    values = picture.astype("float32") / 255
    values = image.color_normalize(values, nd.array(MEAN), nd.array(STD))
    return values.transpose((2, 0, 1)).expand_dims(axis=0)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs", nargs="*", help="JPEG files")
    parser.add_argument("--network", default="resnet18_v1", help="a name of the model zoo")
    parser.add_argument("--params", metavar="FILE", help="parameter file")
    parser.add_argument("--labels", metavar="FILE", help="text file with one class name per line")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="accepted for uniformity")
    args = parser.parse_args()

    paths = args.photographs or bundled_photographs()
    if not paths:
        parser.error("no photographs given, and neither scikit-learn nor scikit-image installed")
    net = vision.get_model(args.network)
    if args.params:
        net.load_parameters(args.params)
    else:
        mx.random.seed(0)
        net.initialize(mx.init.Xavier(magnitude=2.0))
        print("no --params given: the weights are random, so the classes below mean nothing")
    net.hybridize(static_alloc=True, static_shape=True)
    names = Path(args.labels).read_text().splitlines() if args.labels else None
    size = 299 if args.network == "inceptionv3" else 224

    for path in paths:
        start = time.perf_counter()
        data = prepare(path, size)
        data.wait_to_read()
        decoded = time.perf_counter()
        scores = nd.softmax(net(data))
        scores.wait_to_read()
        first = time.perf_counter()
        net(data).wait_to_read()
        again = time.perf_counter()
        best = scores.topk(k=args.top)[0].asnumpy().astype(int)
        print(
            f"{Path(path).name}: input {data.shape}, output {scores.shape}, decode and resize "
            f"{1e3 * (decoded - start):.1f} ms, first run {1e3 * (first - decoded):.1f} ms, "
            f"next {1e3 * (again - first):.1f} ms"
        )
        for index in best:
            label = f" {names[index]}" if names else ""
            print(f"    {index:4d}{label}  {float(scores[0][int(index)].asscalar()):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
