"""Time and memory of one GPT training iteration, with data, tensor and pipeline parallelism.

One micro-batch of b sequences of s tokens takes, on a stage of L layers divided among T GPUs,

- products: L (24 b s h^2 + 4 b s^2 h) / T flops forward, twice as many backward, and the forward
  again if activations are recomputed; on the last stage 6 b s h V / T for the scores of V words;
- element-wise work: bytes per element of the hidden array, of its divided part, of the attention
  weights and of the scores (constants below, counted kernel by kernel for 2-byte numbers);
- 2 all-reduces of 2 b s h bytes per layer forward, 2 backward, 2 more with recomputation, in a
  ring: 2 (T - 1) (latency + bytes / (T bandwidth)).

P stages with m micro-batches (1F1B) take the sum of all stages for one micro-batch and m - 1 times
the slowest stage; if all stages take equally long, the idle time (bubble) is (P - 1) / m. A stage
sends and receives at once, with one neighbour after the other. The gradients are summed once per
iteration in rings of D GPUs, and then the optimizer updates the weights. A framework may hide
gradients behind the last backward, and the messages of stages behind computing.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from scaling_model import Cluster  # noqa: E402

# Bytes that kernels read and write for an element, forward and backward.
# Whole hidden array: two LayerNorms, and twice bias, dropout and addition.
WHOLE = (22, 46)
# Hidden array divided among T GPUs: bias and GELU on 4 h, gradients of the biases.
DIVIDED = (16, 38)
# Attention weights: scale, mask and softmax in one kernel, dropout in another.
WEIGHTS = (9, 11)
# Scores: cast to float32, softmax cross entropy.
SCORES = (30, 14)
# A parameter in the optimizer: gradient to float32, its norm, Adam, the 2-byte copy.
UPDATE = 40
# Links of a V100 mesh that a ring of this number of GPUs uses.
LINKS = {2: 1, 4: 4, 8: 6}


@dataclasses.dataclass
class Nodes(Cluster):
    """Links: those of scaling_model.py, and how GPUs are connected inside a node."""

    mesh: bool = True  # whether few GPUs have few links between them, instead of a switch

    def inner_bandwidth(self, gpus: int) -> float:
        """Return the bytes per second of a ring of GPUs in one node."""
        if not self.mesh:
            return self.node_bandwidth
        links = LINKS[min(size for size in LINKS if size >= min(gpus, max(LINKS)))]
        return self.node_bandwidth * links / max(LINKS.values())


@dataclasses.dataclass
class Model:
    """A GPT network; lengths and sizes are counts of elements."""

    hidden: int
    layers: int
    heads: int
    length: int = 2048
    vocabulary: int = 51200

    def layer_parameters(self) -> int:
        """Return the parameters of one layer."""
        return 12 * self.hidden**2 + 13 * self.hidden

    def parameters(self) -> int:
        """Return the parameters of the network, whose scores share the words' table."""
        tables = (self.vocabulary + self.length) * self.hidden
        return self.layers * self.layer_parameters() + tables + 2 * self.hidden


@dataclasses.dataclass
class Job:
    """Division of the work: data x tensor x pipeline GPUs, micro-batches of one data rank."""

    data: int
    tensor: int
    pipeline: int
    micro_batch: int
    micro_batches: int = 1
    recompute: bool = True
    hide_gradients: bool = True
    hide_messages: bool = True

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self.data * self.tensor * self.pipeline

    @property
    def batch(self) -> int:
        """Sequences of an iteration."""
        return self.micro_batch * self.micro_batches * self.data

    def check(self, model: Model) -> None:
        """Raise a ValueError if the model cannot be divided in this way."""
        for name, count, parts in (
            ("heads", model.heads, self.tensor),
            ("layers", model.layers, self.pipeline),
        ):
            if count % parts:
                raise ValueError(f"{count} {name} cannot be divided among {parts} GPUs")


@dataclasses.dataclass
class Rates:
    """Rates of a GPU: flops of products and bytes of element-wise kernels per second."""

    flops: float
    bandwidth: float


@dataclasses.dataclass
class Work:
    """Flops and bytes of a GPU for one micro-batch on one stage."""

    flops: float
    bytes_: float

    def seconds(self, rates: Rates) -> float:
        """Return the time without communication."""
        return self.flops / rates.flops + self.bytes_ / rates.bandwidth


def stage_work(model: Model, job: Job, last: bool) -> Work:
    """Return what a GPU of a stage computes for one micro-batch, forward and backward.

    Parameters
    ----------
    model : Model
    job : Job
    last : bool
        Whether the stage computes scores and loss.

    Returns
    -------
    Work
        The share of one GPU.
    """
    layers, forwards = model.layers // job.pipeline, 2 if job.recompute else 1
    tokens = job.micro_batch * model.length
    forward = 24 * tokens * model.hidden**2 + 4 * tokens * model.length * model.hidden
    flops = layers * forward * (forwards + 2)
    whole = layers * tokens * model.hidden * (forwards * WHOLE[0] + WHOLE[1])
    divided = layers * tokens * model.hidden * (forwards * DIVIDED[0] + DIVIDED[1])
    weights = model.heads * tokens * model.length
    divided += layers * weights * (forwards * WEIGHTS[0] + WEIGHTS[1])
    if last:
        flops += 6 * tokens * model.hidden * model.vocabulary
        divided += tokens * model.vocabulary * sum(SCORES)
    return Work(flops / job.tensor, whole + divided / job.tensor)


def ring(cluster: Nodes, gpus: int, bytes_: float, nodes: int = 1, sharing: int = 1) -> float:
    """Return the seconds of an all-reduce in a ring.

    Parameters
    ----------
    cluster : Nodes
        Latencies and bandwidth between nodes.
    gpus : int
        Members of the ring.
    bytes_ : float
        Size of the array.
    nodes : int
        Nodes on which the members lie.
    sharing : int
        Rings that use the adapter of a node at the same time.

    Returns
    -------
    float
        0 for a single member.
    """
    if gpus == 1:
        return 0.0
    if nodes > 1:
        latency, bandwidth = cluster.net_latency, cluster.net_bandwidth / sharing
    else:
        latency, bandwidth = cluster.node_latency, cluster.inner_bandwidth(gpus)
    return 2 * (gpus - 1) * (latency + bytes_ / (gpus * bandwidth))


def tensor_seconds(model: Model, job: Job, cluster: Nodes, last: bool) -> float:
    """Return the seconds that a stage's all-reduces of one micro-batch take."""
    nodes = max(1, job.tensor // cluster.gpus_per_node)
    bytes_ = 2 * job.micro_batch * model.length * model.hidden
    count = model.layers // job.pipeline * (6 if job.recompute else 4)
    # The scores need one more all-reduce in backward; those of their maximum and sums are small.
    return (count + last) * ring(cluster, job.tensor, bytes_, nodes)


def message_seconds(model: Model, job: Job, cluster: Nodes, stage: int) -> float:
    """Return the seconds in which a stage exchanges one micro-batch with its neighbours.

    With the next stage it exchanges its output for that output's gradient, with the previous one
    its input's gradient for its next input.
    """
    neighbours = (stage > 0) + (stage < job.pipeline - 1)
    bytes_ = 2 * job.micro_batch * model.length * model.hidden
    if job.gpus <= cluster.gpus_per_node:
        return neighbours * (cluster.node_latency + bytes_ / cluster.inner_bandwidth(2))
    # All GPUs of a node send over one adapter.
    sending = min(job.data * job.tensor, cluster.gpus_per_node)
    return neighbours * (cluster.net_latency + sending * bytes_ / cluster.net_bandwidth)


def stage_parameters(model: Model, job: Job) -> int:
    """Return the parameters of a GPU of the first stage, which has the most."""
    layers = model.layers // job.pipeline
    words = model.vocabulary * model.hidden
    return (layers * model.layer_parameters() + words) // job.tensor + model.length * model.hidden


def gradient_seconds(model: Model, job: Job, cluster: Nodes) -> float:
    """Return the seconds in which the data ranks of a stage add up 2-byte gradients."""
    spread = job.data * job.tensor
    nodes = max(1, spread // cluster.gpus_per_node)
    sharing = min(job.tensor, cluster.gpus_per_node)
    return ring(cluster, job.data, 2 * stage_parameters(model, job), nodes, sharing)


@dataclasses.dataclass
class Iteration:
    """Seconds of an iteration and of its parts; exposed parts only."""

    total: float
    computing: float
    tensor: float
    bubble: float
    messages: float
    gradients: float
    update: float


def predict(model: Model, job: Job, cluster: Nodes, rates: Rates) -> Iteration:
    """Return the time of one iteration.

    Parameters
    ----------
    model : Model
    job : Job
    cluster : Nodes
    rates : Rates

    Returns
    -------
    Iteration
        In seconds; ``computing`` and ``tensor`` are those of the slowest stage.

    Raises
    ------
    ValueError
        If heads or layers do not divide.
    """
    job.check(model)
    computing, tensor, stages = [], [], []
    for stage in range(job.pipeline):
        last = stage == job.pipeline - 1
        computing.append(stage_work(model, job, last).seconds(rates))
        tensor.append(tensor_seconds(model, job, cluster, last))
        both = computing[-1] + tensor[-1]
        message = message_seconds(model, job, cluster, stage)
        stages.append(max(both, message) if job.hide_messages else both + message)
    slowest = max(stages)
    steady = job.micro_batches * slowest
    bubble = sum(stages) - slowest
    gradients = gradient_seconds(model, job, cluster)
    if job.hide_gradients:
        # The gradients of the last micro-batch become ready during its backward, the words' table
        # at its very end.
        share = 3 / 4 if job.recompute else 2 / 3
        table = model.vocabulary * model.hidden / job.tensor / stage_parameters(model, job)
        gradients = max(gradients * table, gradients - share * stages[0])
    update = UPDATE * stage_parameters(model, job) / rates.bandwidth
    busiest = stages.index(slowest)
    return Iteration(
        total=steady + bubble + gradients + update,
        computing=job.micro_batches * computing[busiest],
        tensor=job.micro_batches * tensor[busiest],
        bubble=bubble,
        messages=steady - job.micro_batches * (computing[busiest] + tensor[busiest]),
        gradients=gradients,
        update=update,
    )


def memory_bytes(model: Model, job: Job) -> float:
    """Return the bytes of states and activations on a GPU of the first stage.

    Parameters
    ----------
    model : Model
    job : Job

    Returns
    -------
    float
        20 bytes for a parameter (2-byte weight and gradient, float32 gradient, weight and two
        moments), the activations of as many micro-batches as 1F1B keeps alive, and, with one
        stage, the scores and their gradient in 2 bytes.
    """
    layers, hidden = model.layers // job.pipeline, model.hidden
    size = job.micro_batch * model.length * hidden
    attention = 5 * model.heads * model.length / hidden
    full = size * (10 + (24 + attention) / job.tensor)
    alive = min(job.pipeline, job.micro_batches)
    kept = alive * layers * 2 * size + full if job.recompute else alive * layers * full
    if job.pipeline == 1:
        kept += job.micro_batch * model.length * model.vocabulary / job.tensor * 4
    return 20 * stage_parameters(model, job) + kept


def fitted_rates(points: list[tuple[Work, float]]) -> Rates:
    """Return the rates with which two jobs take the given times.

    Parameters
    ----------
    points : list of (Work, float)
        Work of an iteration, update included, and seconds.

    Returns
    -------
    Rates
        The solution of two linear equations.

    Raises
    ------
    ValueError
        If no positive rates give these times.
    """
    (one, first), (two, second) = points
    determinant = one.flops * two.bytes_ - two.flops * one.bytes_
    flops = (first * two.bytes_ - second * one.bytes_) / determinant if determinant else 0.0
    bytes_ = (one.flops * second - two.flops * first) / determinant if determinant else 0.0
    if flops <= 0 or bytes_ <= 0:
        raise ValueError(f"no rates of flops and bytes give {first:g} s and {second:g} s")
    return Rates(1 / flops, 1 / bytes_)
