"""Train on handwritten digits while processes are lost and join.

    mxlite-run -np 3 --max-np 3 python examples/distributed/elastic.py

Kill any of the processes (kill -9, or kill -STOP): the others continue from the last commit; a new
one takes its place. The loss is that of a training in which no process is lost, because the
remaining processes share each batch.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import mxlite as mx
import mxlite.horovod as hvd
from digits import load_data, make_network
from mxlite import autograd, gluon


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=60, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--commit-every", type=int, default=10, help="steps")
    parser.add_argument("--log", help="file to which each rank adds its steps, as JSON lines")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    parser.add_argument("--smoke", action="store_true", help="twenty steps")
    args = parser.parse_args()
    if args.smoke:
        args.steps = 20

    hvd.init()  # early, because in a running job the others wait for a new process
    pictures, labels, _, _ = load_data()
    mx.random.seed(7)
    net = make_network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": args.lr, "momentum": 0.9}
    )
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    samples = len(labels) // args.batch_size * args.batch_size
    state = hvd.elastic.TrainState(
        net, trainer, sampler=hvd.elastic.ElasticSampler(samples, seed=1), step=0
    )

    def note(loss: float) -> None:
        if not args.log:
            return
        entry = {"step": state.step, "loss": loss, "rank": hvd.rank(), "ranks": hvd.size()}
        entry.update(pid=os.getpid(), time=time.time())
        with open(args.log, "a") as file:
            file.write(json.dumps(entry) + "\n")

    @hvd.elastic.run
    def train(state: hvd.elastic.TrainState) -> None:
        while True:
            mine = args.batch_size // hvd.size()
            indices = list(state.sampler)
            for number in range(len(indices) // mine):
                chosen = indices[number * mine : (number + 1) * mine]
                with autograd.record():
                    loss = loss_of(net(mx.nd.array(pictures[chosen])), mx.nd.array(labels[chosen]))
                loss.backward()
                trainer.step(mine)
                total = hvd.allreduce(loss.detach().sum(), op=hvd.Sum, name="loss").asscalar()
                note(float(total) / args.batch_size)
                if hvd.rank() == 0 and state.step % 50 == 0:
                    mean = total / args.batch_size
                    print(f"step {state.step}: loss {mean:.6f}, {hvd.size()} ranks", flush=True)
                state.step += 1
                state.sampler.record_batch(number, mine)
                if state.step % args.commit_every == 0:
                    state.commit()
                if state.step == args.steps:
                    return
                time.sleep(args.pause)
            state.sampler.set_epoch(state.sampler.epoch + 1)

    train(state)
    if hvd.rank() == 0:
        print(f"{state.step} steps, {hvd.size()} ranks at the end", flush=True)


if __name__ == "__main__":
    main()
