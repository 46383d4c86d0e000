"""Output strides: atrous convolutions that keep feature maps large."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from estimator_lib import errors


def atrous_strides(
    strides: Sequence[int], output_stride: Optional[int] = None
) -> Tuple[Tuple[int, int], ...]:
    """Return the stride and atrous rate of each layer.

    Once the product of the strides has reached `output_stride`, further strides become 1. The
    atrous rate of the layers after each of those is multiplied by its stride, so that they see the
    same part of the image (Chen et al. 2017, section 3.1). For example, strides 2 2 2 1 with output
    stride 4 become (2, 1), (2, 1), (1, 1), (1, 2).

    Args:
        strides: of the network's layers, from the image on.
        output_stride: input size over feature-map size; None: all strides stay.

    Returns:
        (stride, rate) of each layer.

    Raises:
        errors.ConfigError: the product of the first strides never is `output_stride`.
    """
    product, products = 1, [1]
    for stride in strides:
        product *= stride
        products.append(product)
    # A stride is never split: with strides of 2, a product of 6 is between two layers.
    if output_stride is not None and output_stride not in products:
        known = ', '.join(str(known) for known in sorted(set(products)))
        raise errors.ConfigError(
            f'output_stride: this network cannot have {output_stride}; it can have {known}.'
        )
    current, rate, result = 1, 1, []
    for stride in strides:
        if current == output_stride:
            # The layer itself has the rate before its own stride: it reads a map of that density.
            result.append((1, rate))
            rate *= stride
        else:
            result.append((stride, 1))
            current *= stride
    return tuple(result)
