"""Batches of images with boxes."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._core import NDArray
from ..base import MXNetError, ShapeError, TypeError_, ValueError_
from ..io.batch import DataDesc
from .color import IMAGENET_MEAN, IMAGENET_STD
from .detection_augmenter import CreateDetAugmenter, DetAugmenter
from .iterator import ImageIter

Label = np.ndarray[Any, Any]


class ImageDetIter(ImageIter):
    """Iterates over batches of images and their boxes, from a record file or listed files.

    A label is ``header width, object width, ..., objects``; an object is ``class, left, top, right,
    bottom, ...`` with positions as shares of width and height. Labels of a batch are (batch,
    objects, object width); those of images with fewer objects end with -1.

    Parameters
    ----------
    batch_size : int
    data_shape : tuple of int
        (3, height, width).
    path_imgrec, path_imglist, path_root, path_imgidx, shuffle, part_index, num_parts, imglist
        See `ImageIter`.
    aug_list : list of DetAugmenter, optional
        Default is the result of `CreateDetAugmenter` with the further arguments.
    data_name, label_name : str
    last_batch_handle : {'pad', 'discard', 'roll_over'}
    apply_exif_orientation : bool, optional
        Whether images are turned upright as their Exif orientation says; see `imdecode`. Boxes are
        shares of the image after that.

    Raises
    ------
    ShapeError
        If a label does not have this form.

    Notes
    -----
    Matches ``mxnet.image.ImageDetIter``: images whose boxes are all lost are left out.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, ...],
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[DetAugmenter] | None = None,
        imglist: list[Any] | None = None,
        data_name: str = "data",
        label_name: str = "label",
        last_batch_handle: str = "pad",
        apply_exif_orientation: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            data_shape=data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
            apply_exif_orientation=apply_exif_orientation,
        )
        if aug_list is None:
            self.auglist = CreateDetAugmenter(self.data_shape, **kwargs)
        else:
            self.auglist = aug_list
        self._set_label_shape(self._estimate_label_shape())

    def _set_label_shape(self, label_shape: tuple[int, int]) -> None:
        self.label_shape = label_shape
        name = self.provide_label[0][0]
        self.provide_label = [DataDesc(name, (self.batch_size, *label_shape))]

    def _estimate_label_shape(self) -> tuple[int, int]:
        """Return the largest number of objects in an image, and the width of an object."""
        objects, width = 0, None
        self._rewind()
        while True:
            try:
                raw, _ = self.next_sample()
            except StopIteration:
                break
            label = self._parse_label(raw)
            if width is not None and label.shape[1] != width:
                raise ShapeError(
                    f"ImageDetIter: all objects must have {width} numbers as the first ones, got "
                    f"{label.shape[1]} ({self._location()})"
                )
            objects, width = max(objects, label.shape[0]), label.shape[1]
        if width is None:
            raise ValueError_("ImageDetIter: the source must have at least 1 image, got none")
        self.reset()
        return objects, width

    def _parse_label(self, label: Any) -> Label:
        """Return the boxes with a positive area as an array (objects, object width)."""
        if isinstance(label, NDArray):
            label = label.asnumpy()
        raw = np.ravel(label).astype(np.float32)
        if raw.size < 7:
            raise ShapeError(
                f"ImageDetIter: Label shape is invalid: {raw.shape}, expected header width, object "
                f"width and objects of at least 5 numbers ({self._location()})"
            )
        header, width = int(raw[0]), int(raw[1])
        if header < 2 or width < 5 or (raw.size - header) % width or raw.size < header + width:
            raise ShapeError(
                f"ImageDetIter: Label shape {raw.shape} inconsistent with header width {header} "
                f"and annotation width {width} ({self._location()})"
            )
        boxes = raw[header:].reshape(-1, width)
        boxes = boxes[(boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])]
        if len(boxes) == 0:
            raise ShapeError(
                f"ImageDetIter: Encounter sample with no valid label ({self._location()})"
            )
        return boxes

    def _check_valid_label(self, label: Label) -> None:
        """Raise ShapeError if there is no object with a positive area."""
        if label.ndim != 2 or label.shape[1] < 5:
            raise ShapeError(f"Label with shape (1+, 5+) required, {label.shape} received.")
        valid = (label[:, 0] >= 0) & (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])
        if not valid.any():
            raise ShapeError("Invalid label occurs.")

    def _make_sample(self, picture: NDArray, label: Any) -> tuple[NDArray, Any] | None:
        self.check_valid_image([picture])
        boxes = self._parse_label(label)
        picture, boxes = self.augmentation_transform(picture, boxes)
        try:
            self._check_valid_label(boxes)
        except MXNetError as error:
            logging.debug("Invalid image, skipping:  %s", error)
            return None
        data = self.postprocess_data(picture)
        if tuple(data.shape) != self.data_shape:
            raise ShapeError(
                f"ImageDetIter: the augmenters must return data_shape {self.data_shape}, got "
                f"{tuple(data.shape)} ({self._location()})"
            )
        padded = np.full(self.label_shape, -1, np.float32)
        padded[: len(boxes)] = boxes
        return data.astype(np.float32), padded

    def augmentation_transform(  # type: ignore[override]
        self, data: NDArray, label: Label
    ) -> tuple[NDArray, Label]:
        """Return image and boxes after all augmenters."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    def reshape(
        self,
        data_shape: tuple[int, ...] | None = None,
        label_shape: tuple[int, int] | None = None,
    ) -> None:
        """Change the shape of images or of labels.

        Parameters
        ----------
        data_shape : tuple of int, optional
            (3, height, width); the augmenters must return images of this shape.
        label_shape : tuple of int, optional
            (objects, object width) with at least as many objects.

        Raises
        ------
        ValueError
        """
        if data_shape is not None:
            data_shape = tuple(data_shape)
            self.check_data_shape(data_shape)
            name = self.provide_data[0][0]
            self.provide_data = [DataDesc(name, (self.batch_size, *data_shape))]
            self.data_shape = data_shape
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self._set_label_shape((label_shape[0], label_shape[1]))

    def check_label_shape(self, label_shape: tuple[int, ...]) -> None:
        """Raise ValueError if a label shape has another width or too few objects."""
        if len(label_shape) != 2:
            raise ShapeError(f"label_shape {label_shape} given: label_shape should have length 2")
        if label_shape[0] < self.label_shape[0]:
            raise ShapeError(
                f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, "
                "not allowed."
            )
        if label_shape[1] != self.label_shape[1]:
            raise ShapeError(
                f"label_shape object width inconsistent: {self.label_shape[1]} vs {label_shape[1]}."
            )

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Set the label shapes of this and another iterator to the larger one.

        Parameters
        ----------
        it : ImageDetIter
        verbose : bool
            Log the change.

        Returns
        -------
        ImageDetIter
            The other iterator.

        Raises
        ------
        TypeError, ValueError
        """
        if not isinstance(it, ImageDetIter):
            raise TypeError_(
                f"sync_label_shape: it must be an ImageDetIter, got {type(it).__name__}"
            )
        if self.label_shape[1] != it.label_shape[1]:
            raise ShapeError(
                "sync_label_shape: objects of both iterators must have equally many numbers, got "
                f"{self.label_shape[1]} and {it.label_shape[1]}"
            )
        shape = (max(self.label_shape[0], it.label_shape[0]), self.label_shape[1])
        for iterator in (self, it):
            if verbose and iterator.label_shape != shape:
                logging.info("Resized label_shape from %s to %s.", iterator.label_shape, shape)
            iterator.reshape(label_shape=shape)
        return it

    def draw_next(
        self,
        color: tuple[int, int, int] | None = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: int | None = None,  # noqa: N803
        window_name: str = "draw_next",
        id2labels: dict[int, str] | None = None,
    ) -> Iterator[Label]:
        """Yield the images of one pass with their boxes drawn, as uint8 (height, width, 3) in BGR.

        Parameters
        ----------
        color : tuple of int, optional
            RGB; default is drawn at random for each box.
        thickness : int
        mean, std : numpy.ndarray, True or None
            Mean and deviation of `ColorNormalizeAug`, to undo the normalization.
        clip : bool
            Clip to 0 to 255.
        waitKey : int, optional
            Show each image for this many milliseconds; needs cv2.
        window_name : str
        id2labels : dict, optional
            Names to write into the boxes; needs cv2.
        """
        cv2 = _cv2() if waitKey is not None or id2labels is not None else None
        mean = IMAGENET_MEAN if mean is True else mean
        std = IMAGENET_STD if std is True else std
        while True:
            try:
                raw, content = self.next_sample()
            except StopIteration:
                return
            data, boxes = self.augmentation_transform(
                self.imdecode(content), self._parse_label(raw)
            )
            pixels = data.asnumpy()
            pixels = pixels if std is None else pixels * std
            pixels = (pixels if mean is None else pixels + mean)[..., ::-1]
            picture = np.ascontiguousarray(np.clip(pixels, 0, 255) if clip else pixels)
            picture = picture.astype(np.uint8)
            scale = np.tile(picture.shape[1::-1], 2)
            for box in boxes:
                if box[1] < 0:
                    continue
                left, top, right, bottom = (box[1:5] * scale).astype(int)
                paint = np.random.rand(3) * 255 if color is None else color[::-1]
                _draw_box(picture, (left, top, right, bottom), paint, thickness)
                name = None if id2labels is None else id2labels.get(int(box[0]))
                if cv2 is not None and name is not None:
                    place = (int(left) + 5, int(top) + 17)
                    cv2.putText(
                        picture, name, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 2
                    )
            if cv2 is not None and waitKey is not None:
                cv2.imshow(window_name, picture)
                cv2.waitKey(waitKey)
            yield picture


def _draw_box(picture: Label, box: tuple[int, ...], color: Any, thickness: int) -> None:
    """Draw the outline of a box (left, top, right, bottom), clipped to the image."""
    left, top, right, bottom = box
    outer, inner = thickness // 2, (thickness + 1) // 2
    mask = np.zeros(picture.shape[:2], bool)
    mask[max(0, top - outer) : bottom + inner, max(0, left - outer) : right + inner] = True
    mask[top + inner : max(0, bottom - outer), left + inner : max(0, right - outer)] = False
    picture[mask] = np.asarray(color, np.float64).astype(np.uint8)


def _cv2() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        warnings.warn(
            f"Unable to import cv2, names and windows are left out: {error}", stacklevel=3
        )
        return None
