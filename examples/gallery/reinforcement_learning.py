"""Balance a pole with an actor and a critic (A2C) in gymnasium's CartPole.

    pip install gymnasium
    python examples/gallery/reinforcement_learning.py
    python examples/gallery/reinforcement_learning.py --picture reinforcement_learning.png

Eight environments run in turns, 32 steps each. The actor scores the two actions, the critic
estimates the rewards to come; the actor learns from what was better or worse than the estimate.
Prints the mean length of the last episodes; 500 is the longest, a random actor reaches about 22.
"""

from __future__ import annotations

import argparse
import sys

import gymnasium
import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn

ENVIRONMENTS, STEPS = 8, 32


class ActorCritic(nn.HybridBlock):
    """Scores (batch, 2) of the actions and values (batch,) of states (batch, 4)."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.actor, self.critic = nn.HybridSequential(), nn.HybridSequential()
        for net, outputs in ((self.actor, 2), (self.critic, 1)):
            net.add(nn.Dense(units, activation="tanh"), nn.Dense(units, activation="tanh"))
            net.add(nn.Dense(outputs))

    def hybrid_forward(self, F, x):  # noqa: N803
        """Return scores and values."""
        return self.actor(x), self.critic(x).reshape((-1,))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="few updates")
    parser.add_argument("--picture", metavar="FILE", help="write a plot of the episodes")
    args = parser.parse_args()
    if args.smoke:
        args.updates = 60
    mx.random.seed(args.seed)
    random = np.random.default_rng(args.seed)
    environments = [gymnasium.make("CartPole-v1") for _ in range(ENVIRONMENTS)]
    states = np.stack([e.reset(seed=args.seed + i)[0] for i, e in enumerate(environments)])
    net = ActorCritic(args.units)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": args.lr}, clip_global_norm=0.5
    )
    lengths, running = [], np.zeros(ENVIRONMENTS, int)
    for update in range(args.updates):
        seen, actions, rewards, ended = [], [], [], []
        for _ in range(STEPS):
            share = nd.softmax(net(nd.array(states))[0])[:, 1].asnumpy()
            chosen = (random.random(ENVIRONMENTS) < share).astype(int)
            seen.append(states.copy())
            actions.append(chosen)
            reward, over = np.ones(ENVIRONMENTS), np.zeros(ENVIRONMENTS)
            for number, environment in enumerate(environments):
                state, reward[number], failed, timeout, _ = environment.step(int(chosen[number]))
                running[number] += 1
                if failed or timeout:
                    over[number] = 1
                    lengths.append(int(running[number]))
                    running[number] = 0
                    state = environment.reset()[0]
                states[number] = state
            rewards.append(reward)
            ended.append(over)
        returns = net(nd.array(states))[1].asnumpy()
        targets = np.zeros((STEPS, ENVIRONMENTS), "float32")
        for step in reversed(range(STEPS)):
            returns = rewards[step] + args.discount * returns * (1 - ended[step])
            targets[step] = returns
        target = nd.array(targets.ravel())
        with autograd.record():
            scores, values = net(nd.array(np.concatenate(seen)))
            logs = nd.log_softmax(scores)
            advantage = target - values.detach()
            gain = nd.pick(logs, nd.array(np.concatenate(actions))) * advantage
            entropy = -(logs.exp() * logs).sum(axis=1)
            loss = (values - target) ** 2 * 0.5 - gain - 0.01 * entropy
        loss.backward()
        trainer.step(STEPS * ENVIRONMENTS)
        if update % max(1, args.updates // 10) == 0 and lengths:
            print(f"update {update}: mean of the last episodes {np.mean(lengths[-20:]):.0f}")
    mean = float(np.mean(lengths[-20:]))
    if args.picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 2.5))
        smooth = np.convolve(lengths, np.ones(20) / 20, "valid")
        axes.plot(lengths, ".", markersize=2, color="lightgray")
        axes.plot(np.arange(len(smooth)) + 19, smooth)
        axes.set(xlabel="episode", ylabel="steps with the pole upright")
        figure.savefig(args.picture, dpi=80, bbox_inches="tight")
    print(f"mean length of the last 20 episodes {mean:.0f}")
    return 0 if mean > (30 if args.smoke else 150) else 1


if __name__ == "__main__":
    sys.exit(main())
