"""Helpers of training scripts (``mx.gluon.utils``)."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from .. import ndarray as nd
from .._files.checksum import check_sha1
from .._files.saving import replacing_file
from .._progress import Progress
from ..base import FileAccessError, FileFormatError, ShapeError, TypeError_, ValueError_
from ..context import Context
from ..ndarray import NDArray
from ..numpy_mode import of_mode
from .block.hooks import HookHandle
from .parameter.parameter import shape_is_known

__all__ = [
    "DownloadError",
    "HookHandle",
    "check_sha1",
    "clip_global_norm",
    "download",
    "replace_file",
    "shape_is_known",
    "split_and_load",
    "split_data",
]

_CHUNK = 1 << 18  # bytes of a download between two steps of the progress bar
_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


class DownloadError(FileAccessError):
    """A file could not be fetched from the network."""


def split_data(
    data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Cut an array into slices along one axis.

    Parameters
    ----------
    data : NDArray
    num_slice : int
    batch_axis : int
    even_split : bool
        Raise an error for a size that is not a multiple of ``num_slice``; False makes the first
        slices longer by one.

    Raises
    ------
    ShapeError
        If the axis cannot be divided in this way.
    """
    if not hasattr(data, "shape"):
        raise TypeError_(
            f"split_data: data must be an NDArray, got {type(data).__name__}; mx.nd.array(...) "
            "makes one"
        )
    size = data.shape[batch_axis]
    if num_slice < 1:
        raise ValueError_(f"split_data: num_slice must be 1 or more, got {num_slice}")
    if even_split and size % num_slice != 0:
        raise ShapeError(
            f"data with shape {tuple(data.shape)} cannot be evenly split into {num_slice} slices "
            f"along axis {batch_axis}. Use a batch size that's multiple of {num_slice} or set "
            "even_split=False to allow uneven partitioning of data."
        )
    if size < num_slice:
        raise ShapeError(
            f"Too many slices for data with shape {tuple(data.shape)}. Arguments are "
            f"num_slice={num_slice} and batch_axis={batch_axis}."
        )
    # As in numpy.array_split, the first parts have one more element.
    step, rest = divmod(size, num_slice)
    begins = [step * index + min(index, rest) for index in range(num_slice)]
    ends = [*begins[1:], size]
    if batch_axis == 0:
        return [data[begin:end] for begin, end in zip(begins, ends)]
    return [nd.slice_axis(data, batch_axis, begin, end) for begin, end in zip(begins, ends)]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Split a batch into one slice for each context, and copy each slice to its context.

    Parameters
    ----------
    data : NDArray or array-like
    ctx_list : list of Context
    batch_axis : int
    even_split : bool
        As in `split_data`.

    Raises
    ------
    TypeError
        If ``ctx_list`` is a context instead of a list.
    """
    if isinstance(ctx_list, Context):
        raise TypeError_(
            f"split_and_load: ctx_list must be a list of contexts such as [{ctx_list!r}], got "
            f"{ctx_list!r}"
        )
    if not isinstance(data, NDArray):
        data = of_mode(nd.array(data, ctx=ctx_list[0]))
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [piece.as_in_context(ctx) for piece, ctx in zip(slices, ctx_list)]


def clip_global_norm(
    arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True
) -> float | NDArray:
    """Scale arrays in place so that the 2-norm of all together is at most ``max_norm``.

    Parameters
    ----------
    arrays : list of NDArray
    max_norm : float
    check_isfinite : bool
        Warn about a norm that is nan or infinite; this waits for the result.

    Returns
    -------
    float or NDArray
        The norm before scaling, as a float if ``check_isfinite``.
    """
    if not arrays:
        raise ValueError_("clip_global_norm: arrays must have at least 1 array, got none")
    for number, array in enumerate(arrays):
        if not isinstance(array, NDArray):
            raise TypeError_(
                f"clip_global_norm: array {number} must be an NDArray, which is scaled in place, "
                f"got {type(array).__name__}"
            )
    ctx = arrays[0].ctx
    squares = [nd.sum(nd.square(array.astype("float32"))).as_in_context(ctx) for array in arrays]
    norm = nd.sqrt(nd.add_n(*squares))
    if check_isfinite:
        value = float(norm)
        if not math.isfinite(value):
            warnings.warn(
                "nan or inf is detected. Clipping results will be undefined.", stacklevel=2
            )
    scale = nd.minimum(max_norm / (norm + 1e-8), 1.0)
    for array in arrays:
        factor = scale.as_in_context(array.ctx).astype(array.dtype)
        array[:] = nd.broadcast_mul(array, factor.reshape((1,) * len(array.shape)))
    return value if check_isfinite else norm


def _get_repo_url() -> str:
    """Return the base URL of MXNet's models and data sets, which other libraries use.

    Returns
    -------
    str
        ``MXNET_GLUON_REPO`` if it is set, else MXNet's repository.
    """
    address = os.environ.get("MXNET_GLUON_REPO") or _REPOSITORY
    return address if address.endswith("/") else address + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Return the URL of a file in a folder of the repository."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def replace_file(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> None:
    """Atomically move a file to a path, replacing an existing file.

    Parameters
    ----------
    src, dst : str or path
        On the same file system.
    """
    os.replace(src, dst)


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Download a file unless it already exists.

    Parameters
    ----------
    url : str
    path : str, optional
        Destination file or folder; default is the current folder.
    overwrite : bool
        Replace an existing file.
    sha1_hash : str, optional
        Fetch again unless the file has this checksum.
    retries : int
        Number of further attempts.
    verify_ssl : bool
        Check the server's certificate.

    Returns
    -------
    str
        Path of the file.

    Warns
    -----
    UserWarning
        For an http address without ``sha1_hash``, because the file can be modified in transit.

    Raises
    ------
    DownloadError
        If it cannot be fetched; the message names the path where the file can be put by hand.
    FileFormatError
        If the fetched file has another checksum.
    """
    name = url.split("/")[-1]
    if path is None:
        target = name
    else:
        path = os.path.expanduser(path)
        target = os.path.join(path, name) if os.path.isdir(path) else path
    if not target:
        raise ValueError_(f"download: no file name in URL {url!r}; give a path")
    if retries < 0:
        raise ValueError_(f"download: retries must be 0 or more, got {retries}")
    fits = os.path.exists(target) and (not sha1_hash or check_sha1(target, sha1_hash))
    if fits and not overwrite:
        return target
    if url.lower().startswith("http://") and not sha1_hash:
        warnings.warn(
            f"download: {url} is fetched without encryption and without a checksum, so the file "
            "can be modified in transit; use https or give sha1_hash",
            UserWarning,
            stacklevel=2,
        )
    content = _fetch(url, os.path.abspath(target), retries, verify_ssl)
    import hashlib

    found = hashlib.sha1(content).hexdigest()
    if sha1_hash and found != sha1_hash:
        raise FileFormatError(
            f"download: {url} has the SHA-1 checksum {found}, expected {sha1_hash}; the repo may "
            "be outdated or the download incomplete"
        )
    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    with replacing_file(target) as stream:
        stream.write(content)
    return target


def _fetch(url: str, target: str, retries: int, verify_ssl: bool) -> bytes:
    # Imported on use, because importing http.client takes longer than the rest of mxlite's Python.
    import http.client
    import urllib.error

    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate "
            "verification is strongly advised.",
            stacklevel=3,
        )
    for attempt in range(retries + 1):
        try:
            return _read(url, verify_ssl)
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            failure = error
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                break
            if isinstance(error, ValueError):  # not a valid URL
                break
        if attempt < retries:
            time.sleep(min(0.2 * 2**attempt, 2.0))
    raise DownloadError(
        f"download: {url} cannot be fetched ({reason}); without network, put the file at {target!r}"
    ) from failure


def _read(url: str, verify_ssl: bool) -> bytes:
    """Return the content of a URL; uses ``requests`` if it is installed, as 1.x does."""
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    requests: Any = None
    if url.startswith(("http://", "https://")):
        with contextlib.suppress(ImportError):
            requests = importlib.import_module("requests")
    if requests is not None:
        with requests.get(url, verify=verify_ssl, timeout=30, stream=True) as answer:
            if answer.status_code != 200:
                reason = answer.reason or f"status {answer.status_code}"
                raise urllib.error.HTTPError(url, answer.status_code, reason, answer.headers, None)
            return _joined(url, answer.iter_content(_CHUNK), _length(answer.headers))
    context = None if verify_ssl else ssl._create_unverified_context()
    with urllib.request.urlopen(url, timeout=30, context=context) as opened:
        length = _length(opened.headers)
        content = _joined(url, iter(lambda: opened.read(_CHUNK), b""), length)
    if length is not None and len(content) < length:
        raise http.client.IncompleteRead(content, length - len(content))
    return content


def _length(headers: Any) -> int | None:
    """Return the Content-Length of a response; None without one."""
    value = headers.get("Content-Length", "")
    return int(value) if value.isdigit() else None


def _joined(url: str, chunks: Iterable[bytes], length: int | None) -> bytes:
    """Return the joined chunks of a response; shows the progress of the download."""
    content = bytearray()
    with Progress(length, url.rsplit("/", 1)[-1], unit="B", keep=False) as progress:
        for chunk in chunks:
            content += chunk
            progress.add(len(chunk))
    return bytes(content)
