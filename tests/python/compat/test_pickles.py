"""Pickles that MXNet 1.9.1 wrote."""

import base64
import json

from alias_runner import run_code

# Base64 of what pickle.dumps gave: csr [[0, 0, 1], [2, 0, 0]], row_sparse with row 1 = [1, 2] of 3,
# cpu(3), gpu(1).
PICKLES = {
    "csr": (
        "gASV3QAAAAAAAACMFG14bmV0Lm5kYXJyYXkuc3BhcnNllIwKQ1NSTkRBcnJheZSTlE6FlFKUfZSMBmhhbmRs"
        "ZZSMCGJ1aWx0aW5zlIwJYnl0ZWFycmF5lJOUQ4TJ+pP5AgAAAAEAAAACAAAAAAAAAAIAAAACAAAAAAAAAAMA"
        "AAAAAAAAAQAAAAAAAAAAAAAABgAAAAEAAAADAAAAAAAAAAYAAAABAAAAAgAAAAAAAAAAAIA/AAAAQAAAAAAA"
        "AAAAAQAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAAAAAAAAAACUhZRSlHNiLg=="
    ),
    "csr, protocol 2": (
        "gAJjbXhuZXQubmRhcnJheS5zcGFyc2UKQ1NSTkRBcnJheQpxAE6FcQFScQJ9cQNYBgAAAGhhbmRsZXEEY19f"
        "YnVpbHRpbl9fCmJ5dGVhcnJheQpxBWNfY29kZWNzCmVuY29kZQpxBliJAAAAw4nDusKTw7kCAAAAAQAAAAIA"
        "AAAAAAAAAgAAAAIAAAAAAAAAAwAAAAAAAAABAAAAAAAAAAAAAAAGAAAAAQAAAAMAAAAAAAAABgAAAAEAAAAC"
        "AAAAAAAAAAAAwoA/AAAAQAAAAAAAAAAAAQAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAAAAAAAAAABxB1gGAAAA"
        "bGF0aW4xcQiGcQlScQqFcQtScQxzYi4="
    ),
    "row_sparse": (
        "gASVuwAAAAAAAACMFG14bmV0Lm5kYXJyYXkuc3BhcnNllIwQUm93U3BhcnNlTkRBcnJheZSTlE6FlFKUfZSM"
        "BmhhbmRsZZSMCGJ1aWx0aW5zlIwJYnl0ZWFycmF5lJOUQ1zJ+pP5AQAAAAIAAAABAAAAAAAAAAIAAAAAAAAA"
        "AgAAAAMAAAAAAAAAAgAAAAAAAAABAAAAAAAAAAAAAAAGAAAAAQAAAAEAAAAAAAAAAACAPwAAAEABAAAAAAAA"
        "AJSFlFKUc2Iu"
    ),
    "context": (
        "gASVUQAAAAAAAACMDW14bmV0LmNvbnRleHSUjAdDb250ZXh0lJOUKYGUfZQojA1kZXZpY2VfdHlwZWlklEsB"
        "jAlkZXZpY2VfaWSUSwOMCF9vbGRfY3R4lE51Yi4="
    ),
    "context, protocol 2": (
        "gAJjbXhuZXQuY29udGV4dApDb250ZXh0CnEAKYFxAX1xAihYDQAAAGRldmljZV90eXBlaWRxA0sBWAkAAABk"
        "ZXZpY2VfaWRxBEsDWAgAAABfb2xkX2N0eHEFTnViLg=="
    ),
    "gpu": (
        "gAJjbXhuZXQuY29udGV4dApDb250ZXh0CnEAKYFxAX1xAihYDQAAAGRldmljZV90eXBlaWRxA0sCWAkAAABk"
        "ZXZpY2VfaWRxBEsBWAgAAABfb2xkX2N0eHEFTnViLg=="
    ),
}


def state_of_symbol(text):
    """Pickle as symbols of 1.9.1 do: a call, and a dictionary with the JSON text."""
    head = b"\x80\x02cmxnet.symbol.symbol\nSymbol\nN\x85R}X\x06\x00\x00\x00handleX"
    return head + len(text).to_bytes(4, "little") + text.encode() + b"sb."


def test_pickles_of_mxnet_load(tmp_path):
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "_plus_scalar", "name": "y", "attrs": {"scalar": "2"}, "inputs": [[0, 0, 0]]},
    ]
    graph = {"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {}}
    symbol = base64.b64encode(state_of_symbol(json.dumps(graph))).decode()
    pickles = {**PICKLES, "symbol": symbol}
    text = run_code(
        f"""
        import base64, pickle

        import mxnet as mx

        for name, blob in {pickles!r}.items():
            value = pickle.loads(base64.b64decode(blob))
            if isinstance(value, mx.sym.Symbol):
                found = value.bind(mx.cpu(), {{"x": mx.nd.ones(1)}}).forward()[0]
                print(name, value.list_outputs(), found.asnumpy().tolist())
            elif isinstance(value, mx.nd.NDArray):
                numbers = value.asnumpy().tolist()
                print(name, value.stype, value.shape, numbers, value.dtype.__name__)
                value.check_format()
                again = pickle.loads(pickle.dumps(value))
                assert again.stype == value.stype
            else:
                print(name, value, value == pickle.loads(pickle.dumps(value)))
        """,
        tmp_path,
    )
    csr = "csr (2, 3) [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]] float32"
    assert text.splitlines() == [
        f"csr {csr}",
        f"csr, protocol 2 {csr}",
        "row_sparse row_sparse (3, 2) [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]] float32",
        "context cpu(3) True",
        "context, protocol 2 cpu(3) True",
        "gpu gpu(1) True",
        "symbol ['y_output'] [3.0]",
    ]


def test_the_pool_of_multiprocessing_is_there(tmp_path):
    text = run_code(
        """
        import multiprocessing

        import mxnet as mx

        with multiprocessing.pool.ThreadPool(2) as pool:
            print(sum(pool.map(int, "12")))
        """,
        tmp_path,
    )
    assert text.strip() == "3"
