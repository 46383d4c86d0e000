"""Types of the arguments and results of tasks."""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

import numpy as np
import tensorflow as tf

Example = Dict[str, tf.Tensor]
Features = Dict[str, tf.Tensor]
Labels = Dict[str, tf.Tensor]
Tensors = Dict[str, tf.Tensor]
Metric = Tuple[tf.Tensor, tf.Operation]  # the value, and the update op
Arrays = Mapping[str, np.ndarray]

# Every task's features hold these.
IMAGE = 'image'  # [batch, height, width, channels]
SOURCE_ID = 'source_id'  # string [batch]: names the example in messages
