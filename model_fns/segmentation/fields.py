"""Names of the tensors of examples, batches and outputs; published names where they exist.

Tensors of an example have no batch dimension; features, labels and outputs have one.
B is the batch, H x W the crop in training and else the size of the padded images, C the number of
classes.
"""

from __future__ import annotations

from estimator_lib.task import IMAGE, SOURCE_ID

# Examples and features; `batch_spec` has their types in batches. Decoded images are uint8.
IMAGE = IMAGE
SOURCE_ID = SOURCE_ID
TRUE_IMAGE_SHAPE = 'true_image_shape'
# Features of served images, equal for all images of a request.
ORIGINAL_SIZE = 'original_size'
RESIZED_SIZE = 'resized_size'

# Examples and labels.
SEMANTIC = 'semantic_labels'
INSTANCES = 'instance_labels'
CENTER = 'center_heatmap'
OFFSET = 'center_offsets'
OFFSET_WEIGHTS = 'offset_weights'
EDGE = 'edge_labels'

# Outputs.
SEMANTIC_PREDICTIONS = 'SemanticPredictions'  # int64 [B, H, W]
SEMANTIC_PROBABILITIES = 'SemanticProbabilities'  # float32 [B, H, W, C]
INSTANCE_CENTERS = 'InstanceCenters'  # float32 [B, H, W]
CENTER_OFFSETS = 'CenterOffsets'  # float32 [B, H, W, 2]
EDGE_PREDICTIONS = 'EdgePredictions'  # int64 [B, H, W]
INSTANCE_PREDICTIONS = 'InstancePredictions'  # int32 [B, H, W]: 0 none, from 1 instances
PANOPTIC_PREDICTIONS = 'PanopticPredictions'  # int32 [B, H, W]: 1000 * class + instance, or -1

# Heads: their variables are under `logits/<head>`.
SEMANTIC_HEAD = 'semantic'
INSTANCE_CENTER_HEAD = 'instance_center'
OFFSET_HEAD = 'offset'
EDGE_HEAD = 'edge'

# All outputs of heads, in the order in which they are listed.
OUTPUTS = (
    SEMANTIC_PREDICTIONS,
    SEMANTIC_PROBABILITIES,
    INSTANCE_CENTERS,
    CENTER_OFFSETS,
    EDGE_PREDICTIONS,
)
