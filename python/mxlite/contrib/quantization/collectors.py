"""Collectors of layer outputs, and the thresholds that are computed from the collected values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...base import ValueError_
from ...ndarray import NDArray

__all__ = [
    "Histogram",
    "Ranges",
    "_LayerHistogramCollector",
    "_LayerOutputMinMaxCollector",
    "_get_optimal_threshold",
    "_get_optimal_thresholds",
    "_smooth_distribution",
    "combine_histogram",
    "thresholds_of",
]

Ranges = dict[str, tuple[float, float]]
# Counts, edges of the bins, smallest value, largest value, end of the symmetric range.
Histogram = tuple[np.ndarray, np.ndarray, float, float, float]


def _extremes(name: str, values: NDArray) -> tuple[float, float]:
    low, high = float(values.min().asscalar()), float(values.max().asscalar())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError_(
            f"calibration: values of {name} must be finite, got {low} to {high}; check the "
            "parameters and calib_data"
        )
    return low, high


def combine_histogram(
    old_hist: Histogram, arr: np.ndarray, new_min: float, new_max: float, new_th: float
) -> Histogram:
    """Return a histogram that also counts the values of an array.

    Parameters
    ----------
    old_hist : tuple
        Counts, edges, smallest value, largest value, end of the range.
    arr : numpy.ndarray
    new_min, new_max, new_th : float
        Smallest value, largest value and largest absolute value of `arr`.

    Returns
    -------
    tuple
        As `old_hist`. If `new_th` is larger than the end of the range, bins of the same width are
        added on both sides.
    """
    counts, edges, low, high, end = old_hist
    low, high = min(low, new_min), max(high, new_max)
    if new_th <= end:
        return counts + _count(arr, len(counts), end)[0], edges, low, high, end
    width = 2 * end / len(counts)
    added = int((new_th - end) // width) + 1 if width > 0 else 0
    end = end + added * width if width > 0 else new_th
    total, edges = _count(arr, len(counts) + 2 * added, end)
    total[added : len(total) - added] += counts
    return total, edges, low, high, end


def _count(values: np.ndarray, bins: int, end: float) -> tuple[np.ndarray, np.ndarray]:
    return np.histogram(values, bins=bins, range=(-end, end))


class _LayerCollector:
    """Base class of collectors: selects outputs by name.

    Parameters
    ----------
    include_layer : collection of str, optional
        Names of outputs that are collected; default: all.
    logger : logging.Logger, optional
    """

    def __init__(self, include_layer: Collection[str] | None, logger: Any) -> None:
        self.include_layer = include_layer
        self.logger = logger

    def chosen(self, name: str | bytes) -> str | None:
        """Return the output's name as str if it is collected, else None."""
        name = name.decode() if isinstance(name, bytes) else name
        return name if self.include_layer is None or name in self.include_layer else None


class _LayerHistogramCollector(_LayerCollector):
    """Collects a histogram of each layer's outputs, for thresholds by entropy.

    Parameters
    ----------
    num_bins : int
        Number of bins of a layer's first histogram, an odd number.
    include_layer : collection of str, optional
        Names of outputs that are collected; default: all.
    logger : logging.Logger, optional

    Attributes
    ----------
    hist_dict : dict of str to tuple
        Histograms by name, see `combine_histogram`.
    """

    def __init__(
        self,
        num_bins: int = 8001,
        include_layer: Collection[str] | None = None,
        logger: Any = None,
    ) -> None:
        super().__init__(include_layer, logger)
        self.hist_dict: dict[str, Histogram] = {}
        self.num_bins = num_bins

    def collect(self, name: str | bytes, arr: NDArray) -> None:
        """Add the values of an output."""
        layer = self.chosen(name)
        if layer is None:
            return
        if self.logger:
            self.logger.debug(f"Collecting layer {layer} histogram of shape {arr.shape}")
        low, high = _extremes(layer, arr)
        end = max(abs(low), abs(high))
        known = self.hist_dict.get(layer)
        if known is None:
            self.hist_dict[layer] = (*_count(arr.asnumpy(), self.num_bins, end), low, high, end)
        else:
            self.hist_dict[layer] = combine_histogram(known, arr.asnumpy(), low, high, end)


class _LayerOutputMinMaxCollector(_LayerCollector):
    """Collects the smallest and the largest value of each layer's outputs.

    Parameters
    ----------
    quantized_dtype : str
        Kept as an attribute.
    include_layer : collection of str, optional
        Names of outputs that are collected; default: all.
    logger : logging.Logger, optional

    Attributes
    ----------
    min_max_dict : dict of str to (float, float)
    """

    def __init__(
        self, quantized_dtype: str, include_layer: Collection[str] | None = None, logger: Any = None
    ) -> None:
        super().__init__(include_layer, logger)
        self.min_max_dict: Ranges = {}
        self.quantized_dtype = quantized_dtype

    def collect(self, name: str | bytes, arr: NDArray) -> None:
        """Widen the range of an output."""
        layer = self.chosen(name)
        if layer is None:
            return
        low, high = _extremes(layer, arr)
        known = self.min_max_dict.get(layer, (low, high))
        self.min_max_dict[layer] = (min(low, known[0]), max(high, known[1]))
        if self.logger:
            self.logger.debug(f"Collecting layer {layer} min_range={low:f}, max_range={high:f}")


def _smooth_distribution(p: np.ndarray, eps: float = 0.0001) -> np.ndarray:
    """Replace zeros of a distribution by `eps`; reduce the other entries evenly to keep the sum."""
    is_zero = p == 0
    zeros = int(is_zero.sum())
    others = p.size - zeros
    if others == 0:
        raise ValueError_("_smooth_distribution: p must have an entry other than 0, got only 0")
    taken = eps * zeros / others
    smooth: np.ndarray = np.where(is_zero, eps, p - taken).astype(np.float32)
    if taken >= 1 or (smooth <= 0).any():
        raise ValueError_(
            f"_smooth_distribution: nonzero entries of p must be above {taken}, the amount that "
            f"fills {zeros} zeros, got {p[~is_zero].min()}"
        )
    return smooth


def _is_unsigned(smallest: float, quantized_dtype: str) -> bool:
    return smallest >= 0 and quantized_dtype in ("auto", "uint8")


def _get_optimal_threshold(
    hist_data: Histogram, quantized_dtype: str, num_quantized_bins: int = 255
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return smallest and largest value, the threshold of least divergence, and the divergence."""
    counts, edges, low, high, _ = hist_data
    if len(counts) % 2 == 0:
        raise ValueError_(
            f"_get_optimal_threshold: hist_data must have an odd number of bins, got {len(counts)}"
        )
    if _is_unsigned(low, quantized_dtype):
        num_quantized_bins = num_quantized_bins * 2 + 1  # uses only the upper half of these bins
    threshold, divergence = nd.contrib.calibrate_entropy(
        nd.array(counts), nd.array(edges), num_quantized_bins=num_quantized_bins
    )
    return low, high, threshold.asnumpy(), divergence.asnumpy()


def _get_optimal_thresholds(
    hist_dict: dict[str, Histogram],
    quantized_dtype: str,
    num_quantized_bins: int = 255,
    logger: Any = None,
) -> Ranges:
    """Return the ranges of least divergence; removes the histograms from the dict."""
    if logger is not None:
        logger.info(
            "Calculating optimal thresholds for quantization using KL divergence with "
            f"num_quantized_bins={num_quantized_bins}"
        )
    ranges: Ranges = {}
    for name in list(hist_dict):
        low, high, threshold, divergence = _get_optimal_threshold(
            hist_dict.pop(name), quantized_dtype, num_quantized_bins
        )
        end = float(threshold[0])
        ranges[name] = (0.0 if _is_unsigned(low, quantized_dtype) else -end, end)
        if logger:
            logger.debug(
                f"layer={name}, min_val={low:f}, max_val={high:f}, th={end:f}, "
                f"divergence={float(divergence[0]):f}"
            )
    return ranges


def thresholds_of(collector: Any, calib_mode: str, quantized_dtype: str, logger: Any) -> Ranges:
    """Return the ranges that follow from the outputs in a collector."""
    if calib_mode != "entropy":
        return {
            name: (float(low), float(high)) for name, (low, high) in collector.min_max_dict.items()
        }
    if logger:
        logger.info("Calculating optimal thresholds for quantization")
    return _get_optimal_thresholds(collector.hist_dict, quantized_dtype, logger=logger)
