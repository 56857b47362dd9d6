"""Loses frames, workers and servers of parameter server jobs, and sends them foreign bytes.

    python tests/faults/server_faults.py lossy --runs 50 --json result.json
    python tests/faults/server_faults.py fuzz --frames 100000 --json result.json

Each run of ``lossy`` is a job in which 10 % of the received frames are dropped, 10 % come twice and
10 % come late. During the run a server and a worker are killed and replaced. All sums are of
integers and must be exact; no process may hang. ``fuzz`` sends frames that are foreign, cut or
changed to the ports of a running job: all of them must be refused and counted, and the job's sums
must be right.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import random
import socket
import struct
import sys
import time

from fault_jobs import ROOT, newest_library, write
from mxlite import _core

sys.path.insert(0, str(ROOT / "tests" / "python" / "dist"))

from server_jobs import ServerJob, free_port  # noqa: E402

STEPS = 40

# Prints what is wrong, and the worker's steps: a replacement continues after the last push.
WORKER = f"""
import os, sys, time
from mxlite import _core, nd
kv = _core.ServerClient()
sizes = {{"a": 3, "b": 5000, "c": 700}}
for key, size in sizes.items():
    kv.init(key, nd.zeros((size,)))
total = kv.num_workers * (kv.num_workers + 1) // 2
first = min(kv.pushed(key) for key in sizes)
rejoined = kv.report()["worker"]["rejoined"]
for step in range(1, {STEPS} + 1):
    for key, size in sizes.items():
        if step > kv.pushed(key) if rejoined else True:
            kv.push(key, nd.full((size,), (kv.rank + 1) * step))
    for key, size in sizes.items():
        if step <= first:
            continue
        out = nd.empty((size,))
        kv.pull(key, out)
        value = out.asnumpy()
        # A replaced worker repeats steps that servers which were not replaced have already done.
        ahead = (value >= total * step) & (value <= total * {STEPS}) & (value % total == 0)
        if not (ahead if rejoined else value == total * step).all():
            print("WRONG", key, step, value[:4], total * step, flush=True)
            sys.exit(9)
    if step == 3:
        print("goes", flush=True)
    time.sleep(0.005)
for key, size in sizes.items():
    out = nd.empty((size,))
    kv.pull(key, out)
    print("final", key, int(out.asnumpy()[0]), total * {STEPS}, flush=True)
if kv.rank == 0:
    print("report", kv.report(), flush=True)
kv.close()
"""


def lossy_run(seed: int) -> dict[str, object]:
    """Return what happened in one job."""
    rng = random.Random(seed)
    workers, servers = rng.randint(2, 3), rng.randint(1, 2)
    result: dict[str, object] = {"seed": seed, "workers": workers, "servers": servers}
    job = ServerJob(
        WORKER,
        workers=workers,
        servers=servers,
        MXNET_KVSTORE_BIGARRAY_BOUND=1000,
        LD_PRELOAD=newest_library("libmxlite_lossy_frames.so"),
        LOSSY_FRAMES=f"10 10 10 20 {seed + 1}",
        MXLITE_PS_REJOIN=30,
        MXLITE_PS_TIMEOUT=40,
        MXLITE_PS_SNAPSHOT_DIR="{folder}/snapshots",
        MXLITE_PS_SNAPSHOT_UPDATES=rng.randint(1, 8),
        PS_RESEND_TIMEOUT=100,
    )
    with job:
        try:
            job.wait_for("goes", 60)
            for what in rng.sample(["worker", "server"], 2):
                time.sleep(rng.random() * 0.3)
                processes = job.workers if what == "worker" else job.servers
                victim = rng.randrange(len(processes))
                if processes[victim].process.poll() is not None:
                    continue  # this process has ended already
                processes[victim].kill()
                processes[victim] = job.start(what)
            codes = job.wait(120)
        except TimeoutError as error:
            return {**result, "outcome": "hang", "output": str(error)[-3000:]}
        text = job.text()
        finals = [line.split() for line in text.splitlines() if line.startswith("final")]
        exact = all(line[2] == line[3] for line in finals) and len(finals) == 3 * workers
        result["outcome"] = "ok" if exact and not any(codes) else "wrong"
        if result["outcome"] != "ok":
            result["output"] = text[-3000:]
    return result


def lossy(args: argparse.Namespace) -> dict[str, object]:
    """Run many jobs."""
    runs = []
    for i in range(args.runs):
        runs.append(lossy_run(args.seed + i))
        if runs[-1]["outcome"] != "ok":
            print(json.dumps(runs[-1], indent=1), flush=True)
    good = sum(run["outcome"] == "ok" for run in runs)
    return {
        "what": "10 % of frames dropped, doubled and late; a worker and a server killed",
        "runs": args.runs,
        "good": good,
        "hangs": sum(run["outcome"] == "hang" for run in runs),
        "steps": STEPS,
        "seeds": [args.seed, args.seed + args.runs - 1],
        "failure_rate_below": round(3 / args.runs, 4) if good == args.runs else None,
        "each": runs,
    }


WAITER = """
import json, os
from mxlite import _core, nd
kv = _core.ServerClient()
kv.init("w", nd.zeros((100,)))
step = 0
while not os.path.exists(os.environ["JOB_FOLDER"] + "/stop"):
    step += 1
    kv.push("w", nd.full((100,), step))
    out = nd.empty((100,))
    kv.pull("w", out)
    assert (out.asnumpy() == kv.num_workers * step).all()
    if step == 1:
        print("goes", flush=True)
print("report", json.dumps(kv.report()), flush=True)
kv.close()
"""


MASK = 2**64 - 1
MAGIC = b"mxl-JOB3"


def sip_hash(key: tuple[int, int], data: bytes) -> int:
    """Return SipHash-2-4, the seal of frames."""
    v0, v1 = key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D
    v2, v3 = key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573

    def turned(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & MASK

    def rounds(count: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0 = (v0 + v1) & MASK
            v1 = turned(v1, 13) ^ v0
            v2 = (v2 + v3) & MASK
            v3 = turned(v3, 16) ^ v2
            v0 = (turned(v0, 32) + v3) & MASK
            v3 = turned(v3, 21) ^ v0
            v2 = (v2 + v1) & MASK
            v1 = turned(v1, 17) ^ v2
            v2 = turned(v2, 32)

    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], "little") | (len(data) & 255) << 56
    for word in (*struct.unpack(f"<{whole // 8}Q", data[:whole]), last):
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xFF
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3


def derived(key: tuple[int, int], data: bytes) -> tuple[int, int]:
    """Return a key of a key and some data."""
    return sip_hash(key, data + b"\1"), sip_hash(key, data + b"\2")


def hostile_frame(rng: random.Random, kind: int, key: tuple[int, int]) -> bytes:
    """Return bytes that are nearly the first frame of a connection whose key is known."""
    body = rng.randbytes(rng.randint(0, 200))
    sizes = (len(body), 0) if kind != 2 else (rng.randrange(2**32), rng.randrange(2**32))
    before = struct.pack(
        "<IHBB",
        0x5350584D,
        3 if kind != 4 else rng.randrange(4, 2**16),
        rng.randint(1, 40),  # kind 6: only the content is wrong
        0,
    )
    body_seal = sip_hash((key[0], key[1] ^ MASK), body)
    after = struct.pack("<QIIIIQI", rng.randrange(2**64), 0, *sizes, 0, body_seal, 0)
    seal = sip_hash(key, bytes(8) + before + bytes(8) + after + bytes(4))
    if kind == 3:
        seal = rng.randrange(2**64)
    head = before + struct.pack("<Q", seal) + after
    frame = head + struct.pack("<I", _core.crc32c(head)) + body
    if kind == 5:
        at = rng.randrange(len(frame))
        frame = frame[:at] + bytes([frame[at] ^ (1 << rng.randrange(8))]) + frame[at + 1 :]
    return frame + bytes(64)


def send_until_closed(rng: random.Random, port: int, job: tuple[int, int]) -> bool:
    """Send something hostile; return whether the other side ended the connection."""
    kind = rng.randrange(7)
    with (
        contextlib.suppress(ConnectionResetError, BrokenPipeError),
        socket.create_connection(("127.0.0.1", port), timeout=20) as foreign,
    ):
        if kind == 0:
            data = rng.randbytes(rng.randint(48, 400))
        elif kind == 1:
            data = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20
        else:
            nonce = rng.randbytes(16)
            theirs = foreign.recv(24, socket.MSG_WAITALL)
            key = derived(job, nonce + theirs[8:] + b"c")
            data = MAGIC + nonce + hostile_frame(rng, kind, key)
        foreign.sendall(data)
        try:
            foreign.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the other side has reset the connection
                raise
        while foreign.recv(4096):
            pass
    return True


def fuzz(args: argparse.Namespace) -> dict[str, object]:
    """Send hostile frames to a running job."""
    rng = random.Random(args.seed)
    port = free_port()
    with ServerJob(WAITER, workers=1, PORT=port) as job:
        job.wait_for("goes")
        # Frames of a program that knows the job's token reach the checks behind the seal.
        key = derived((0, 0), job.environment["MXLITE_PS_TOKEN"].encode())
        closed = 0
        for i in range(args.frames):
            target = port if i % 4 else job.port
            closed += send_until_closed(rng, target, key)
        (job.folder / "stop").touch()
        codes = job.wait(60)
        text = job.text()
    report = next(
        (json.loads(line[7:]) for line in text.splitlines() if line.startswith("report")), None
    )
    to_server = args.frames - (args.frames + 3) // 4
    refused = report["servers"][0]["refused_connections"] if report else 0
    return {
        "what": "foreign, cut and changed frames at the ports of a running job",
        "frames": args.frames,
        "connections_ended": closed,
        "sent_to_server": to_server,
        "refused_by_server": refused,
        "bad_frames": report["servers"][0]["bad_frames"] if report else None,
        "job_ended_well": not any(codes),
        "good": int(closed == args.frames and not any(codes) and refused == to_server),
        "runs": 1,
        "seeds": [args.seed, args.seed],
        "output": "" if not any(codes) else text[-3000:],
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["lossy", "fuzz"])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--frames", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    args = parser.parse_args()
    begin = time.monotonic()
    summary = lossy(args) if args.what == "lossy" else fuzz(args)
    summary["took"] = round(time.monotonic() - begin, 1)
    each = summary.pop("each", None)
    write(summary, args.json, **({"each": each} if each else {}))
    return 0 if summary["good"] == summary["runs"] else 1


if __name__ == "__main__":
    sys.exit(main())
