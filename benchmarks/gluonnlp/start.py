"""Starts gluon-nlp's run_pretraining.py on MXNet 1.9.1 and mxlite alike (Python 3.8 and later).

    python start.py OUT.json run_pretraining.py options...

No line of the script is changed. Before it runs, gluon-nlp's table of models gets a small one
without dropout under the name ``bert_12_768_12``, and Python's and NumPy's random numbers get a
seed. OUT.json lists every batch in the order of the calls: losses in full precision, and sums that
show whether both sides read the same samples.
"""

import json
import random
import runpy
import sys
from pathlib import Path

import gluonnlp as nlp
import mxnet as mx
import numpy as np

MODEL = {
    "num_layers": 2,
    "units": 128,
    "hidden_size": 512,
    "max_length": 128,
    "num_heads": 4,
    "embed_size": 128,
    "dropout": 0.0,
}


def main():
    """Run the script with the options that follow its name."""
    out, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path.insert(0, str(Path(script).resolve().parent))
    nlp.model.bert.bert_hparams["bert_12_768_12"].update(MODEL)
    import pretraining_utils

    calls = []
    forward = pretraining_utils.BERTForPretrain.forward

    def noted(self, *batch):
        result = forward(self, *batch)
        calls.append(
            {
                "training": mx.autograd.is_training(),
                "mlm_loss": float(result[2].asscalar()),
                "nsp_loss": float(result[3].asscalar()),
                "batch": [float(a.astype("float64").sum().asscalar()) for a in batch],
            }
        )
        return result

    pretraining_utils.BERTForPretrain.forward = noted
    random.seed(0)
    np.random.seed(0)
    runpy.run_path(script, run_name="__main__")
    Path(out).write_text(json.dumps(calls))


if __name__ == "__main__":
    main()
