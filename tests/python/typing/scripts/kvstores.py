"""Push and pull through a key-value store."""

from __future__ import annotations

import mxlite as mx


def update(key: int, pushed: mx.nd.NDArray, stored: mx.nd.NDArray) -> None:
    stored += pushed * 2


def main() -> None:
    store = mx.kv.create("local")
    shape = (2, 3)
    store.init(3, mx.nd.ones(shape))
    store.init([4, 5], [mx.nd.zeros(shape), mx.nd.zeros(shape)])
    store._set_updater(update)
    store.push(3, [mx.nd.ones(shape), mx.nd.ones(shape)])
    out = mx.nd.zeros(shape)
    store.pull(3, out=out)
    print(store.type, store.rank, store.num_workers, out.asnumpy().tolist())
    other = mx.kv.create("device")
    other.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
    other.init("w", mx.nd.ones(shape))
    other.push("w", mx.nd.ones(shape), priority=-1)
    other.pull("w", out=[out])
    print(out.mean().asscalar())


if __name__ == "__main__":
    main()
