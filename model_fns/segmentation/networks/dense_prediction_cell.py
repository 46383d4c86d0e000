"""Cells found by architecture search: a small graph of branches (Chen et al. 2018, NeurIPS).

Each branch is a convolution or a pyramid pooling of the backbone's features or of an earlier
branch; all branches are concatenated and projected. Variables, under `meta_architecture`:
`branch<i>` or, of a separable convolution, `branch<i>_{depthwise,pointwise}`; `concat_projection`.

The search writes a cell as a JSON list of

    {"op": "conv", "kernel": 3, "rate": [1, 6], "input": -1}
    {"op": "pyramid_pooling", "grid_size": [2, 2], "input": 0}
"""

from __future__ import annotations

import dataclasses
import fractions
import json
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.segmentation.networks import head_layers, sizes
from protos import segmentation_pb2

tf1 = tf.compat.v1

SCOPE = 'meta_architecture'

_FROM_BACKBONE = -1

# Keys of an entry in a file, by its "op".
_KEYS = {'conv': ('kernel', 'rate'), 'pyramid_pooling': ('grid_size',)}


@dataclasses.dataclass(frozen=True)
class Branch:
    """One branch of a cell: a pyramid pooling if it has a grid, else a convolution.

    Attributes:
        source: index of the branch whose output it reads; -1: the backbone's features.
        kernel_size: of the convolution.
        rate: (vertical, horizontal) atrous rate of the convolution.
        grid: number of cells, (vertical, horizontal), that divide the image; the branch averages a
            window of the size of a cell at each position. None: a convolution.
    """

    source: int = _FROM_BACKBONE
    kernel_size: int = 3
    rate: Tuple[int, int] = (1, 1)
    grid: Optional[Tuple[int, int]] = None

    def multiply_rate(self, factor: fractions.Fraction, where: str) -> Branch:
        """Return the branch with its rate, if it has one, multiplied by a factor.

        Raises:
            errors.ConfigError: the product is not an integer.
        """
        if self.grid is not None or self.kernel_size == 1:
            return self
        rate = (self.rate[0] * factor, self.rate[1] * factor)
        if any(side.denominator != 1 for side in rate):
            raise errors.ConfigError(
                f'{where} of the dense prediction cell: its atrous rates {self.rate[0]} and '
                f'{self.rate[1]} are no whole numbers at an output stride {1 / factor} times as '
                'large; expected another output stride.'
            )
        return dataclasses.replace(self, rate=(int(rate[0]), int(rate[1])))


@dataclasses.dataclass(frozen=True)
class Cell:
    """Parameters of a cell.

    Attributes:
        branches: each reads the backbone or an earlier one.
        num_filters: channels of each branch and of their projection.
        separable: whether convolutions of more than 1x1 are a depthwise and a pointwise one.
        batch_norm_decay: fraction of the moving statistics that an update keeps.
        dropout_keep_prob: fraction of the concatenated features that training keeps.
    """

    branches: Tuple[Branch, ...]
    num_filters: int = 256
    separable: bool = True
    batch_norm_decay: float = 0.9997
    dropout_keep_prob: float = 0.9

    @classmethod
    def from_config(cls, section: Section[segmentation_pb2.DensePredictionCell]) -> Cell:
        """Build the cell of a config, or of the file that it names.

        Args:
            section: the message.

        Raises:
            errors.ConfigError: not exactly one of branches and file, a file that cannot be read,
                or a value out of its range; the message has the place and the expected values.
        """
        config = section.message
        if bool(config.branches) == bool(config.json_path):
            got = 'both' if config.json_path else 'neither'
            raise section.error(
                '', f'got {got} of branches and json_path; expected exactly one of them.'
            )
        return cls(
            branches=_read_file(config.json_path) if config.json_path else _read(section),
            num_filters=config.num_filters,
            separable=config.separable_convolution,
            batch_norm_decay=schema.decimal_number(config.batch_norm_decay),
            dropout_keep_prob=schema.decimal_number(config.dropout_keep_prob),
        )

    def change_output_stride(self, old_stride: int, new_stride: int, where: str = '') -> Cell:
        """Return the cell, with the same variables, for features of another output stride.

        Args:
            old_stride: output stride that the rates are for.
            new_stride: the other output stride. Rates grow with the size of the features: 6 at 16
                becomes 12 at 8.
            where: the config message with the stride, for the error message.

        Raises:
            errors.ConfigError: a rate would not be an integer.
        """
        factor = fractions.Fraction(old_stride, new_stride)
        branches = [
            branch.multiply_rate(factor, f'{where}: branch {index}' if where else f'branch {index}')
            for index, branch in enumerate(self.branches)
        ]
        return dataclasses.replace(self, branches=tuple(branches))


def apply_cell(features: tf.Tensor, cell: Cell, style: layers.LayerStyle) -> tf.Tensor:
    """Build the features of a cell from those of the backbone.

    A pyramid pooling divides the whole image, of any size, into the cells of its grid.

    Args:
        features: float32 [batch, height, width, channels]; height and width may be unknown.
        cell: the parameters.
        style: of all layers, see `head_layers.head_style`; the cell has its own batch norm decay.

    Returns:
        float32 [batch, height, width, cell.num_filters].
    """
    # DeepLab's hparams of a cell have a decay of their own.
    style = style.with_batch_norm(decay=cell.batch_norm_decay)
    outputs: List[tf.Tensor] = []
    with tf1.variable_scope(SCOPE):
        for index, branch in enumerate(cell.branches):
            source = features if branch.source == _FROM_BACKBONE else outputs[branch.source]
            scope = f'branch{index}'
            if branch.grid is None:
                outputs.append(_convolve(source, branch, cell, style, scope))
            else:
                outputs.append(_pool(source, branch.grid, cell, style, scope))
        joined = layers.concat(outputs, style)
        # Before the projection; pyramid pooling drops behind it. Both as in DeepLab.
        dropped = layers.dropout(
            joined, cell.dropout_keep_prob, style.is_training, 'concat_dropout'
        )
        return layers.conv2d(dropped, cell.num_filters, 1, style, 'concat_projection')


def _convolve(
    features: tf.Tensor, branch: Branch, cell: Cell, style: layers.LayerStyle, scope: str
) -> tf.Tensor:
    kernel_size, rate = branch.kernel_size, branch.rate
    if kernel_size > 1 and cell.separable:
        return head_layers.split_separable_conv2d(
            features, cell.num_filters, style, scope, kernel_size=kernel_size, rate=rate
        )
    return layers.conv2d(features, cell.num_filters, kernel_size, style, scope, rate=rate)


def _pool(
    features: tf.Tensor,
    grid: Tuple[int, int],
    cell: Cell,
    style: layers.LayerStyle,
    scope: str,
) -> tf.Tensor:
    size = sizes.spatial_size(features)
    # Rounded up, so that a grid finer than the features still has windows of a pixel.
    window = ((size[0] - 1) // grid[0] + 1, (size[1] - 1) // grid[1] + 1)
    pooled = _window_means(features, window)
    projected = layers.conv2d(pooled, cell.num_filters, 1, style, scope)
    return sizes.resize(projected, size)


def _window_means(features: tf.Tensor, window: sizes.Size) -> tf.Tensor:
    """Compute the means of all windows within the features.

    Args:
        features: float32 [batch, height, width, channels].
        window: height and width, at most those of the features.

    Returns:
        float32 [batch, height - window height + 1, width - window width + 1, channels].
    """
    if all(isinstance(side, int) for side in window):
        return tf.nn.avg_pool2d(features, window, 1, 'VALID')
    # The pooling kernel needs a static window; differences of cumulative sums do not.
    for axis, side in ((1, window[0]), (2, window[1])):
        before = [[int(i == axis), 0] for i in range(4)]
        # One axis after the other: the mean of a window is the mean of the means of its rows.
        sums = tf.pad(tf.cumsum(features, axis), before)
        first, last = [slice(None)] * 4, [slice(None)] * 4
        first[axis], last[axis] = slice(tf.shape(sums)[axis] - side), slice(side, None)
        features = (sums[tuple(last)] - sums[tuple(first)]) / tf.cast(side, features.dtype)
    return features


def _read(section: Section[segmentation_pb2.DensePredictionCell]) -> Tuple[Branch, ...]:
    """Read the branches in a config."""
    branches = []
    for index, entry in enumerate(section.message.branches):
        pools = entry.operation == segmentation_pb2.DensePredictionCell.Branch.PYRAMID_POOLING
        branch = Branch(
            source=entry.input,
            kernel_size=entry.kernel_size,
            rate=(entry.rate_height, entry.rate_width),
            grid=(entry.grid_height, entry.grid_width) if pools else None,
        )
        names = ('rate_height and rate_width', 'grid_height and grid_width')
        path = f'{section.at("branches")}[{index}]'
        branches.append(_checked(branch, index, path, 'kernel_size', names))
    return tuple(branches)


def _read_file(path: str) -> Tuple[Branch, ...]:
    """Read the branches in a file of the architecture search."""
    try:
        with tf.io.gfile.GFile(path) as file:
            entries = json.loads(file.read())
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f'{path}: cannot be read: {error}') from error
    except json.JSONDecodeError as error:
        raise errors.ConfigError(
            f'{path}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}.'
        ) from error
    if not isinstance(entries, list) or not entries:
        raise errors.ConfigError(
            f'{path}: expected a list with an entry for each branch; got {_shown(entries)}.'
        )
    return tuple(_branch(entry, index, path) for index, entry in enumerate(entries))


def _branch(entry: Any, index: int, path: str) -> Branch:
    """Read a branch from its entry in a file."""
    where = f'{path}: entry {index}'
    if not isinstance(entry, dict):
        raise errors.ConfigError(f'{where}: expected an object; got {_shown(entry)}.')
    operation = entry.get('op')
    if operation not in _KEYS:
        hint = errors.did_you_mean(str(operation), _KEYS)
        raise errors.ConfigError(f'{where}: "op": unknown operation {_shown(operation)}{hint}')
    known = ('op', 'input', *_KEYS[operation])
    for key in entry:
        if key not in known:
            hint = errors.did_you_mean(key, known)
            raise errors.ConfigError(f'{where}: unknown key {key!r} of {operation!r}{hint}')
    if operation == 'pyramid_pooling':
        branch = Branch(_integer(entry, 'input', where), grid=_pair(entry, 'grid_size', where))
    else:
        # Only a 1x1 convolution may have no rate.
        kernel_size = _integer(entry, 'kernel', where)
        rate = (1, 1) if kernel_size == 1 and 'rate' not in entry else _pair(entry, 'rate', where)
        branch = Branch(_integer(entry, 'input', where), kernel_size, rate)
    return _checked(
        branch, index, where, '"kernel"', ('"rate"', '"grid_size"'), input_name='"input"'
    )


def _checked(
    branch: Branch,
    index: int,
    where: str,
    kernel_name: str,
    pair_names: Tuple[str, str],
    input_name: str = 'input',
) -> Branch:
    """Check the values of a branch; messages use the names of the config or of the file."""
    if not _FROM_BACKBONE <= branch.source < index:
        expected = '-1 (the backbone)'
        if index:
            expected += f', or an earlier branch, 0 to {index - 1}'
        raise errors.ConfigError(
            f'{where}: {input_name}: got {branch.source}; expected {expected}.'
        )
    if branch.grid is None and (branch.kernel_size < 1 or branch.kernel_size % 2 == 0):
        raise errors.ConfigError(
            f'{where}: {kernel_name}: got {branch.kernel_size}; expected an odd number from 1.'
        )
    name = pair_names[0] if branch.grid is None else pair_names[1]
    pair = branch.rate if branch.grid is None else branch.grid
    if min(pair) < 1:
        raise errors.ConfigError(
            f'{where}: {name}: got {pair[0]} and {pair[1]}; expected 1 or more.'
        )
    return branch


def _integer(entry: Dict[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.ConfigError(f'{where}: "{key}": expected an integer; got {_shown(value)}.')
    return value


def _pair(entry: Dict[str, Any], key: str, where: str) -> Tuple[int, int]:
    value = entry.get(key)
    sides = value if isinstance(value, list) else [value, value]
    # Not isinstance: JSON's true and false are bool, which is an int in Python.
    if len(sides) != 2 or not all(type(side) is int for side in sides):
        raise errors.ConfigError(
            f'{where}: "{key}": expected an integer or [vertical, horizontal]; got {_shown(value)}.'
        )
    return sides[0], sides[1]


def _shown(value: Any) -> str:
    """Format a value of a JSON file for a message, shortened; `nothing` for None."""
    text = 'nothing' if value is None else json.dumps(value)
    return text if len(text) <= 60 else f'{text[:57]}...'
