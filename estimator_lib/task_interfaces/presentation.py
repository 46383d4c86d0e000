"""Interface of tasks for presentation: pictures, tables, and files of results."""

from __future__ import annotations

from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from estimator_lib.task_interfaces.tensors import Arrays

if TYPE_CHECKING:
    from estimator_lib.drawing.tiling import Window


class Shown(NamedTuple):
    """Limits on what is shown of a model's outputs for an image.

    Attributes:
        least_score: the least score; None: the limit of the task or its config.
        top_k: the number of results, those with the highest scores; None: as `least_score`.
        class_indices: positions of classes in `Presentation.class_names`; None: all classes.
    """

    least_score: Optional[float] = None
    top_k: Optional[int] = None
    class_indices: Optional[Tuple[int, ...]] = None

    def or_else(self, other: Shown) -> Shown:
        """Return these limits, with those of `other` in place of each None."""
        return Shown(*(theirs if own is None else own for own, theirs in zip(self, other)))


AS_CONFIGURED = Shown()


class Description(NamedTuple):
    """Results of one image, as `--mode=predict` writes them.

    Attributes:
        values: for people and programs, by name.
        rows: the same as a table: a flat mapping for each result.
        picture: uint8 [height, width, 3]; None: no picture is written.
        files: contents of further files beside the picture, by the end of their names.
    """

    values: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = ()
    picture: Optional[np.ndarray] = None
    files: Mapping[str, bytes] = {}


class Region(NamedTuple):
    """Object or area that was found in an image, for files of annotations; in pixels.

    Attributes:
        class_index: position of its class in `Presentation.class_names`.
        box: ymin, xmin, ymax and xmax; of a rotated box, those around its corners.
        rotated: center y and x, height, width, and the angle in radians, clockwise; None: the box
            is axis-aligned.
        corners: [4, 2], y and x of the corners of a rotated box, in order; None as `rotated`.
        mask: bool [h, w], a part of the image that has all of the object; None: only the box is
            known.
        origin: row and column of the image where the part begins.
    """

    class_index: int
    box: Sequence[float]
    rotated: Optional[Sequence[float]] = None
    corners: Optional[np.ndarray] = None
    mask: Optional[np.ndarray] = None
    origin: Tuple[int, int] = (0, 0)


class Presentation:
    """Part of a task that makes pictures, tables and files of its results.

    Each method has a default; by default all outputs are written as they are.

    Attributes:
        class_names: names of the classes, in the order of their numbers in outputs; empty where
            none are known.
        described_outputs: shapes of the outputs that `describe` needs, of one example, by name. A
            side is None where examples or models differ. A model without these outputs is refused
            before the first image.
        tiled_outputs: names of the outputs that evaluations by tiles merge; `Task.metrics` must
            need no others. Empty: there are no evaluations by tiles.
        merges_whole_image: whether the last tile of `merge_tiles` may be the whole image.
    """

    class_names: Sequence[str] = ()
    described_outputs: Mapping[str, Sequence[Optional[int]]] = MappingProxyType({})
    tiled_outputs: Sequence[str] = ()
    merges_whole_image: bool = True

    def metric_title(self, name: str) -> str:
        """Return the title of a metric for people: its name, with the name of its class."""
        return name

    def worth_showing(self, metrics: Mapping[str, float]) -> Shown:
        """Return the limits on what is shown where the user sets none.

        Args:
            metrics: of an evaluation of the same checkpoint; empty: none is known.
        """
        del metrics
        return AS_CONFIGURED

    def least_score(self, metrics: Mapping[str, float]) -> Optional[float]:
        """Return the least score that is worth showing, for files; None: there is none.

        Args:
            metrics: values of the last evaluation by name; empty: there was none.
        """
        return self.worth_showing(metrics).least_score

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> Optional[np.ndarray]:
        """Draw the outputs of one example.

        Args:
            features: of one example, without the batch dimension, `IMAGE` among them; a raw uint8
                image when an exported model is run.
            outputs: from `postprocess`, of the same example; empty: only the labels are drawn.
            labels: of the same example; None: unknown. Groundtruth is drawn beside the outputs.
            shown: limits on the outputs.

        Returns:
            uint8 [height, width, 3]; None when the task draws nothing.
        """
        del features, outputs, labels, shown
        return None

    def draw_metrics(self, values: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        """Draw pictures of an evaluation as a whole: uint8 [height, width, 3] by name.

        Args:
            values: of the value ops of `metrics`.
        """
        del values
        return {}

    def files(self, features: Arrays, outputs: Arrays) -> Dict[str, bytes]:
        """Return files to write beside the picture of one example, by the end of their names.

        Args:
            features: of one example, without the batch dimension, `IMAGE` among them.
            outputs: from `postprocess`, of the same example.
        """
        del features, outputs
        return {}

    def describe(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Description:
        """Return what `--mode=predict` writes of one image; by default all outputs and a picture.

        Args:
            features: `IMAGE`, raw, uint8 [height, width, 3].
            outputs: from `postprocess`, of the same example; their pixels are those of the raw
                image.
            shown: limits on the outputs.

        Raises:
            errors.ConfigError: `shown` limits something that the task does not have.
        """
        del shown
        return Description(outputs, picture=self.draw(features, outputs))

    def nothing_found(self, shown: Shown, worth_showing: Shown) -> str:
        """Return a message for results that are empty for every image; '': no message.

        Args:
            shown: the user's limits.
            worth_showing: the limits where `shown` has none.
        """
        del shown, worth_showing
        return ''

    def coco_results(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Sequence[Mapping[str, Any]]]:
        """Return the entries of one image in a file of COCO results, without `image_id`.

        Args:
            features: `IMAGE`, raw, uint8 [height, width, 3].
            outputs: from `postprocess`, in pixels of the raw image.
            shown: limits on the outputs. Average precision needs all of them, so there are no
                others.

        Returns:
            JSON objects; None: COCO has no such results.
        """
        del features, outputs, shown
        return None

    def regions(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Sequence[Region]]:
        """Return the objects or areas of one image that `describe` describes.

        Args:
            features: `IMAGE`, raw, uint8 [height, width, 3].
            outputs: from `postprocess`, in pixels of the raw image.
            shown: limits on the outputs.

        Returns:
            Regions; None: the task finds none in images.
        """
        del features, outputs, shown
        return None

    def submission_lines(
        self, stem: str, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Mapping[str, Sequence[str]]]:
        """Return the lines of one image in the text files that a benchmark takes.

        Args:
            stem: of the image's file: its name in the benchmark.
            features: `IMAGE`, raw, uint8 [height, width, 3].
            outputs: from `postprocess`, in pixels of the raw image.
            shown: limits on the outputs; there are no others.

        Returns:
            Lines by the name of their file, which collects those of all images; None: no benchmark
            takes such files.
        """
        del stem, features, outputs, shown
        return None

    def merge_tiles(
        self, tiles: Iterable[Tuple[Window, Arrays]], size: Tuple[int, int]
    ) -> Optional[Arrays]:
        """Merge the outputs of overlapping tiles into those of the whole image.

        Args:
            tiles: (top, left, height and width in pixels) and outputs of each tile; at least one.
                The model runs while the tiles are iterated, so outputs that are not kept take no
                memory.
            size: height and width of the image.

        Returns:
            Outputs for `describe`; None: the task cannot merge tiles.
        """
        del tiles, size
        return None

    def evaluated_tiles(self, merged: Arrays) -> Arrays:
        """Return the outputs of `merge_tiles` as arrays of numbers, for `metrics`."""
        return merged
