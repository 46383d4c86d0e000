"""Targets of the heads for instances and edges, from the labels of one image.

The functions take one example, for `tf.data`. The graph does not depend on the number of instances;
the time does.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Tuple

import tensorflow as tf

from model_fns.segmentation import fields
from model_fns.structures import heatmaps
from protos import segmentation_pb2

# The data sets of DeepLab mark pixels without a class so.
IGNORED_IN_RECORDS = 255
# The edge label of a pixel that may or may not be an edge. It differs from the ignore label of the
# classes, which may be 0 (no edge, here) or a class of edges.
IGNORED_EDGE = -1
NO_EDGE = 0


def unify_ignored(classes: tf.Tensor, num_classes: int, ignore_label: int) -> tf.Tensor:
    """Replace 255, which means ignored in all records, by a model's own ignore label.

    Args:
        classes: int32 of any shape.
        num_classes: number of classes; 255 stays where it is one of them.
        ignore_label: label of ignored pixels, such as 11 of CamVid.
    """
    if ignore_label == IGNORED_IN_RECORDS or num_classes > IGNORED_IN_RECORDS:
        return classes
    return tf.where(tf.equal(classes, IGNORED_IN_RECORDS), ignore_label, classes)


def head_targets(
    labels: Mapping[str, tf.Tensor], model: segmentation_pb2.Segmentation, ignore_label: int
) -> Dict[str, tf.Tensor]:
    """Build the targets of a model's heads for instances and edges, by the names of `fields`.

    Args:
        labels: of one image, [H, W] each: `fields.SEMANTIC`, and `fields.INSTANCES` for heads that
            need them.
        model: has the heads.
        ignore_label: pixels of it have no target.
    """
    built: Dict[str, tf.Tensor] = {}
    if model.HasField('instance_center') or model.HasField('offset'):
        built.update(instance_targets(labels[fields.INSTANCES], model.instance_center.sigma))
    if model.HasField('edge'):
        semantic = labels[fields.SEMANTIC]
        built[fields.EDGE] = edge_targets(
            labels[fields.INSTANCES] if model.edge.of_instances else semantic,
            tf.not_equal(semantic, ignore_label),
            model.edge.edge_width,
            classes=semantic if model.edge.num_classes > 2 else None,
        )
    return built


def instance_targets(instances: tf.Tensor, sigma: float) -> Dict[str, tf.Tensor]:
    """Build targets of the center and offset heads (Panoptic-DeepLab, Cheng et al. 2020, 3.2).

    An instance's center is the mean of its pixels in the image. The heat map is 1 at the pixel
    nearest to it and falls off as a Gaussian; where two overlap, the larger one counts. Offsets
    lead to the center itself.

    Args:
        instances: int32 [H, W]; 0 is no instance, any other number an instance.
        sigma: standard deviation of the Gaussians in pixels.

    Returns:
        `fields.CENTER` float32 [H, W] in [0, 1], `fields.OFFSET` float32 [H, W, 2] (rows, columns;
        0 outside of instances) and `fields.OFFSET_WEIGHTS` float32 [H, W] (1 in instances).
    """
    height, width = _size(instances)
    grid = _grid(height, width)
    ids, index, areas = tf.unique_with_counts(tf.reshape(instances, [-1]))
    # In float32 the sums of a large instance would be off by tenths of a pixel.
    positions = tf.cast(tf.reshape(grid, [-1, 2]), tf.float64)
    sums = tf.math.unsorted_segment_sum(positions, index, tf.size(ids))
    means = tf.cast(sums / tf.cast(areas, tf.float64)[:, tf.newaxis], tf.float32)
    to_center = tf.reshape(tf.gather(means, index), [height, width, 2]) - grid
    weights = tf.cast(tf.not_equal(instances, 0), tf.float32)
    centers = tf.boolean_mask(means, tf.not_equal(ids, 0))
    targets = {
        fields.CENTER: heatmaps.gaussian_heatmap(centers, height, width, sigma),
        fields.OFFSET: to_center * weights[..., tf.newaxis],
        fields.OFFSET_WEIGHTS: weights,
    }
    targets[fields.CENTER].set_shape(instances.shape)
    targets[fields.OFFSET].set_shape(instances.shape.concatenate([2]))
    return targets


def edge_targets(
    labels: tf.Tensor, counted: tf.Tensor, width: int, classes: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Build the edges between labels.

    A pixel is an edge where the square of `width` + 1 pixels around it holds two labels: a straight
    boundary is `width` pixels wide. Pixels that do not count have no label. Such a pixel is an edge
    where the square holds labels from both of its sides, as in Pascal's outlines, and else unknown.

    Args:
        labels: int32 [H, W], below 2^24: classes, or instances with 0 for none.
        counted: bool [H, W]: False where the label is not known.
        width: of an edge in pixels, at least 1.
        classes: int32 [H, W], for edges with a class; a pixel of class 0, or that does not count,
            gets the largest class around it.

    Returns:
        int32 [H, W]: `NO_EDGE`, `IGNORED_EDGE`, or 1 for an edge (with `classes`, its class).
    """
    largest = _largest_around(labels, counted, width)
    smallest = -_largest_around(-labels, counted, width)
    # Where no pixel counts, the largest is below the smallest.
    is_edge = largest > smallest
    if classes is None:
        edge = tf.ones_like(labels)
    else:
        around = tf.cast(_largest_around(classes, counted, width), tf.int32)
        edge = tf.where(counted & (classes > 0), classes, around)
    no_edge = tf.where(counted, NO_EDGE, IGNORED_EDGE)
    return tf.where(is_edge, edge, no_edge)


def _largest_around(labels: tf.Tensor, counted: tf.Tensor, width: int) -> tf.Tensor:
    """Compute the largest label that counts in the square around each pixel: float32 [H, W]."""
    # Max pooling has fast kernels for floats; below 2^24 labels are exact in float32.
    known = tf.where(counted, tf.cast(labels, tf.float32), tf.float32.min)
    pooled = tf.nn.max_pool2d(known[tf.newaxis, ..., tf.newaxis], width + 1, 1, 'SAME')
    return pooled[0, ..., 0]


def _size(instances: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return height and width: ints where they are static."""
    dynamic = tf.shape(instances)
    height, width = instances.shape.as_list()
    return height or dynamic[0], width or dynamic[1]


def _grid(height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Build the row and column of each pixel: float32 [height, width, 2]."""
    rows, columns = tf.meshgrid(tf.range(height), tf.range(width), indexing='ij')
    return tf.cast(tf.stack([rows, columns], axis=-1), tf.float32)
