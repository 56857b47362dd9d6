"""Kills a process that saves checkpoints at random instants: ``kill_saver.py [KILLS] [FOLDER]``.

After every kill the folder must have a complete checkpoint whose step is not older than the last
one that the process reported, and the ``.params`` file beside it must be complete, too. The saver
is forked, so that a kill costs no import.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time

import mxlite as mx
from mxlite import checkpoint


def save_for_ever(folder: str, report: int) -> None:
    """Save one checkpoint after another; write a line with each step that is safe."""
    manager = checkpoint.CheckpointManager(folder, keep=2)
    state = manager.load_latest()
    step = 0 if state is None else int(state["step"])
    while True:
        step += 1
        w = mx.nd.full((100, 100), step)
        manager.save(step, w=w)
        mx.model.save_checkpoint(os.path.join(folder, "model"), 0, None, {"w": w}, {})
        os.write(report, b"%d\n" % step)


def problem_with(folder: str, reported: int) -> str:
    """Return what is wrong with the folder; an empty text if nothing is."""
    state = checkpoint.CheckpointManager(folder, keep=2).load_latest()
    if state is None:
        return "there is no checkpoint" if reported else ""
    if state["step"] < reported or not (state["w"].asnumpy() == state["step"]).all():
        return f"the checkpoint is that of step {state['step']}"
    if reported:
        args, _ = mx.model.load_params(os.path.join(folder, "model"), 0)
        values = args["w"].asnumpy()
        if not reported <= values[0, 0] <= state["step"] or (values != values[0, 0]).any():
            return f"the model file is that of step {values[0, 0]}"
    return ""


def kill_once(folder: str, delay: float) -> int:
    """Run a saver for some seconds, kill it, and return the last step it reported, 0 for none."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            save_for_ever(folder, write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as reports:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        steps = [int(line) for line in reports.read().split("\n")[:-1]]
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the saver ended by itself: {status}")
    return max(steps, default=0)


def seconds_of_a_save(folder: str) -> float:
    """Return how long one step of the saver takes here."""
    start = time.perf_counter()
    w = mx.nd.full((100, 100), 0)
    checkpoint.CheckpointManager(folder, prefix="timing").save(0, w=w)
    mx.model.save_checkpoint(os.path.join(folder, "timing"), 0, None, {"w": w}, {})
    return time.perf_counter() - start


def main(kills: int, folder: str) -> int:
    """Kill ``kills`` times; return 1 if a checkpoint was lost."""
    rng = random.Random(1)
    lost = reported = 0
    longest = 3 * min(seconds_of_a_save(folder) for _ in range(3)) + 0.01
    for done in range(kills):
        reported = max(reported, kill_once(folder, rng.uniform(0.001, longest)))
        problem = problem_with(folder, reported)
        if problem:
            lost += 1
            print(f"kill {done}: {problem} after step {reported} was reported")
    print(f"{kills} kills, {lost} lost, {reported} checkpoints written")
    return 1 if lost or not reported else 0


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    if len(sys.argv) > 2:
        sys.exit(main(number, sys.argv[2]))
    with tempfile.TemporaryDirectory() as name:
        sys.exit(main(number, name))
