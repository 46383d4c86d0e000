"""Searched networks in NumPy, written out operation by operation: what tiny ones are checked with.

Maps are [batch, height, width, channels]; `current` and `previous` are what the papers call h_i and
h_(i-1).
"""

from __future__ import annotations

import numpy as np

from tests.model_fns.backbones import slow_layers

EPSILON = 1e-3


class SlowCells:
    """The operations of searched cells with given variables.

    Args:
        variables: arrays by name.
        channels: of a state of a cell at the first scale.
    """

    def __init__(self, variables, channels):
        self.variables = variables
        self.channels = channels

    def nasnet_normal(self, current, previous, scope, channels):
        h = self.conv_norm(relu(current), scope, '1x1', 'beginning_bn')
        p = self.nasnet_previous(current, previous, scope, channels)
        a = self.sep(h, 5, f'{scope}/comb_iter_0/left') + self.sep(
            p, 3, f'{scope}/comb_iter_0/right'
        )
        b = self.sep(p, 5, f'{scope}/comb_iter_1/left') + self.sep(
            p, 3, f'{scope}/comb_iter_1/right'
        )
        c = pool(h, np.mean) + p
        d = pool(p, np.mean) + pool(p, np.mean)
        e = self.sep(h, 3, f'{scope}/comb_iter_4/left') + h
        return np.concatenate([p, a, b, c, d, e], 3)

    def nasnet_reduction(self, current, previous, scope, channels):
        h = self.conv_norm(relu(current), scope, '1x1', 'beginning_bn')
        p = self.nasnet_previous(current, previous, scope, channels)
        a = self.sep(h, 5, f'{scope}/comb_iter_0/left', 2) + self.sep(
            p, 7, f'{scope}/comb_iter_0/right', 2
        )
        b = pool(h, np.max, 2) + self.sep(p, 7, f'{scope}/comb_iter_1/right', 2)
        c = pool(h, np.mean, 2) + self.sep(p, 5, f'{scope}/comb_iter_2/right', 2)
        d = b + pool(a, np.mean)
        e = self.sep(a, 3, f'{scope}/comb_iter_4/left') + pool(h, np.max, 2)
        return np.concatenate([b, c, d, e], 3)

    def pnasnet(self, current, previous, scope, channels, stride=1):
        """PNASNet's cell; `previous` of the current one's size."""
        h = self.conv_norm(relu(current), scope, '1x1', 'beginning_bn')
        p = previous
        a = self.sep(p, 5, f'{scope}/comb_iter_0/left', stride) + self.projected(
            pool(p, np.max, stride), f'{scope}/comb_iter_0/right', channels
        )
        b = self.sep(h, 7, f'{scope}/comb_iter_1/left', stride) + pool(h, np.max, stride)
        c = self.sep(h, 5, f'{scope}/comb_iter_2/left', stride) + self.sep(
            h, 3, f'{scope}/comb_iter_2/right', stride
        )
        d = self.sep(c, 3, f'{scope}/comb_iter_3/left') + pool(h, np.max, stride)
        kept = h
        if stride == 2:
            kept = self.conv_norm(relu(h), f'{scope}/comb_iter_4/right', '1x1', 'bn_1', 2)
        e = self.sep(p, 3, f'{scope}/comb_iter_4/left', stride) + kept
        return np.concatenate([a, b, c, d, e], 3)

    def nasnet_previous(self, current, previous, scope, channels):
        if previous is None:
            return current
        if previous.shape[1] != current.shape[1]:
            active = relu(previous)
            every_second = active[:, ::2, ::2]
            moved = np.zeros_like(every_second)
            rest = active[:, 1::2, 1::2]
            moved[:, : rest.shape[1], : rest.shape[2]] = rest
            halves = [
                convolve(values, self.variables[f'{scope}/path{index}_conv/weights'])
                for index, values in ((1, every_second), (2, moved))
            ]
            return self.norm(np.concatenate(halves, 3), f'{scope}/final_path_bn')
        if previous.shape[3] != channels:
            return self.conv_norm(relu(previous), scope, 'prev_1x1', 'prev_bn')
        return previous

    def projected(self, pooled, scope, channels):
        if pooled.shape[3] == channels:
            return pooled
        return self.conv_norm(pooled, scope, '1x1', 'bn_1')

    def sep(self, image, size, scope, stride=1):
        for index in (1, 2):
            name = f'{size}x{size}_{index}'
            depthwise = self.variables[f'{scope}/separable_{name}/depthwise_weights'][..., 0]
            image = relu(image)
            image = convolve(image, depthwise[..., None] * np.eye(depthwise.shape[-1]), stride)
            image = convolve(image, self.variables[f'{scope}/separable_{name}/pointwise_weights'])
            image = self.norm(image, f'{scope}/bn_sep_{name}')
            stride = 1
        return image

    def atrous(self, image, size, scope, stride=1):
        image = relu(image)
        if stride == 2:
            image = resize(image, [(side - 1) // 2 + 1 for side in image.shape[1:3]])
        name = f'{size}x{size}'
        weights = self.variables[f'{scope}/atrous_{name}/weights']
        if stride == 1:
            spread = np.zeros([2 * size - 1, 2 * size - 1, *weights.shape[2:]])
            spread[::2, ::2] = weights
            weights = spread
        return self.norm(convolve(image, weights), f'{scope}/bn_atr_{name}')

    def conv_norm(self, image, scope, name, norm, stride=1):
        weights = self.variables[f'{scope}/{name}/weights']
        return self.norm(convolve(image, weights, stride), f'{scope}/{norm}')

    def norm(self, image, scope):
        return slow_layers.batch_norm(image, self.variables, scope, EPSILON)


relu = slow_layers.relu


def convolve(image, weights, stride=1):
    """Convolution whose padding, less on the upper left, is what the stride leaves over."""
    size = weights.shape[0]
    padded = np.pad(image, [(0, 0), *(_margins(n, size, stride) for n in image.shape[1:3]), (0, 0)])
    return slow_layers._windows(padded, size, stride, lambda w: np.tensordot(w, weights, 3))


def unpadded(image, weights):
    """The stem's convolution: 3x3, stride 2, the first window in the corner of the image."""
    return convolve(image, weights)[:, 1:-1:2, 1:-1:2]


def pool(image, function, stride=1):
    """Mean or maximum of the pixels of the image in each 3x3 window."""
    rows, columns = (_margins(n, 3, stride)[0] for n in image.shape[1:3])
    outputs = np.zeros(
        [image.shape[0], *(-(-n // stride) for n in image.shape[1:3]), image.shape[3]]
    )
    for y, x in np.ndindex(*outputs.shape[1:3]):
        top, left = y * stride - rows, x * stride - columns
        window = image[:, max(top, 0) : top + 3, max(left, 0) : left + 3]
        outputs[:, y, x] = function(window, axis=(1, 2))
    return outputs


def resize(image, size):
    """Bilinear, corner pixels on corner pixels."""
    for axis, target in zip((1, 2), size):
        places = np.linspace(0, image.shape[axis] - 1, target)
        low = np.minimum(np.floor(places).astype(int), image.shape[axis] - 1)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        share = (places - low).reshape([-1 if a == axis else 1 for a in range(4)])
        image = np.take(image, low, axis) * (1 - share) + np.take(image, high, axis) * share
    return image


def _margins(side, size, stride):
    missing = max((-(-side // stride) - 1) * stride + size - side, 0)
    return missing // 2, missing - missing // 2
