"""Names of the tensors of examples, batches and outputs; published names where they exist.

Tensors of an example have no batch dimension; features, labels and outputs have one.
B is the batch, H x W the crop in training and else the size of the padded images, C the number of
classes.
"""

from __future__ import annotations

from estimator_lib.task import IMAGE, SOURCE_ID

# Examples and features.
IMAGE = IMAGE  # uint8 [height, width, 3] when decoded; float32 [H, W, 3] in [0, 255] in features
SOURCE_ID = SOURCE_ID  # string scalar
TRUE_IMAGE_SHAPE = 'true_image_shape'  # int32 [3]: size without padding; then 3

# Examples and labels.
SEMANTIC = 'semantic_labels'  # int32 [H, W]: class, or the ignore label (as in the padding)
INSTANCES = 'instance_labels'  # int32 [H, W]: instance, 0 where there is none
CENTER = 'center_heatmap'  # float32 [H, W]: 1 at centers
OFFSET = 'center_offsets'  # float32 [H, W, 2]: rows and columns to the center, in pixels
OFFSET_WEIGHTS = 'offset_weights'  # float32 [H, W]: 1 where there is an instance
EDGE = 'edge_labels'  # int32 [H, W]: class of the edge, 0 for none, -1 where it is not known

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
