"""Names of the values of detection examples, batches and predictions, as published if possible.

Values of decoded and augmented examples have no batch dimension, those of features and labels have
one. n is the number of boxes of an example, M the padded number, C the number of classes, and K
that of the values of a box. Boxes and keypoints are normalized to the image without padding.
"""

from __future__ import annotations

from estimator_lib.task import IMAGE, SOURCE_ID

# Examples and features; `batch_spec` has their types in batches. Decoded images are uint8.
# The assignment exports them: checkers take a bare import for an unused one.
IMAGE = IMAGE
SOURCE_ID = SOURCE_ID
HASH = 'hash'
TRUE_IMAGE_SHAPE = 'true_image_shape'
ORIGINAL_SHAPE = 'original_image_spatial_shape'
CONTEXT_FEATURES = 'context_features'  # float32 [m, length] in examples
NUM_CONTEXT_FEATURES = 'valid_context_size'
SERVED_SHAPE = 'served_image_shape'

# Examples and labels. Examples have n rows in place of M.
BOXES = 'groundtruth_boxes'
CLASSES = 'groundtruth_classes'  # int64 [n], from 0, in examples
CLASS_SCORES = 'multiclass_scores'  # float32 [n, C]: what training learns instead of classes
WEIGHTS = 'groundtruth_weights'
DIFFICULT = 'groundtruth_difficult'
IS_CROWD = 'groundtruth_is_crowd'
GROUP_OF = 'groundtruth_group_of'
AREA = 'groundtruth_area'
# Labels have as many masks as the fullest image of the batch has boxes, at least one.
MASKS = 'groundtruth_instance_masks'
MASK_WEIGHTS = 'groundtruth_instance_mask_weights'
KEYPOINTS = 'groundtruth_keypoints'
KEYPOINT_VISIBILITIES = 'groundtruth_keypoint_visibilities'
NUM_BOXES = 'num_groundtruth_boxes'
NUM_LEFT_OUT = 'num_groundtruth_boxes_left_out'
IMAGE_CLASSES = 'groundtruth_image_classes'
LABELED_CLASSES = 'groundtruth_labeled_classes_of_image'
ABSENT_CLASSES = 'groundtruth_verified_neg_classes'
INCOMPLETE_CLASSES = 'groundtruth_not_exhaustive_classes'

# All values with one row per box.
PER_BOX = (
    BOXES,
    CLASSES,
    CLASS_SCORES,
    WEIGHTS,
    DIFFICULT,
    IS_CROWD,
    GROUP_OF,
    AREA,
    MASKS,
    MASK_WEIGHTS,
    KEYPOINTS,
    KEYPOINT_VISIBILITIES,
)

# Raw predictions. A is the number of anchors, K the box code's size.
PREPROCESSED = 'preprocessed_inputs'  # float32 [batch, height, width, 3]
BOX_ENCODINGS = 'box_encodings'  # float32 [batch, A, K]
CLASS_LOGITS = 'class_predictions_with_background'  # float32 [batch, A, C or C + 1]
ANCHORS = 'anchors'  # float32 [A, 4]; rotated: [A, 5], in pixels of the input
GRIDS = 'anchor_grids'  # int32 [L, 2]: height and width of each feature map in cells
OF_ALL_IMAGES = (ANCHORS, GRIDS)  # without a row for each image

# Predictions of two stages. P is the number of proposals, q is 1 or C; boxes are in pixels.
RPN_BOX_ENCODINGS = 'rpn_box_encodings'  # float32 [batch, A, K]
# float32 [batch, A, 2]: background, object
RPN_OBJECTNESS = 'rpn_objectness_predictions_with_background'
PROPOSAL_BOXES = 'proposal_boxes'  # float32 [batch, P, 4]; rotated [batch, P, 5]
PROPOSAL_SCORES = 'proposal_scores'  # float32 [batch, P, 2]: background, object
NUM_PROPOSALS = 'num_proposals'  # int32 [batch]
BOX_FEATURES = 'box_classifier_features'  # [batch * P, height', width', channels]
REFINED_BOX_ENCODINGS = 'refined_box_encodings'  # float32 [batch, P, q, K]

# Masks and keypoints of boxes. R is the number of rows with predictions, q is 1 or C.
INSTANCE_BOXES = 'instance_boxes'  # float32 [batch, P, 4]: boxes of the rows, in pixels
INSTANCE_ROWS = 'instance_rows'  # int32 [R]: indices of the batch * P boxes
MASK_LOGITS = 'mask_predictions'  # float32 [R, q, mask height, mask width]
KEYPOINT_LOGITS = 'keypoint_predictions'  # float32 [R, k, heat map height, heat map width]

# Detections. N is `max_total_detections`.
DETECTION_BOXES = 'detection_boxes'  # float32 [batch, N, 4]; rotated [batch, N, 5]
DETECTION_CORNERS = 'detection_corners'  # float32 [batch, N, 8]: y and x of rotated boxes' corners
DETECTION_SCORES = 'detection_scores'  # float32 [batch, N]
DETECTION_CLASSES = (
    'detection_classes'  # float32 [batch, N]; from 0 in models, ids from 1 in the task
)
NUM_DETECTIONS = 'num_detections'  # float32 [batch]
# For pictures only: float32 [batch, P, 4], or the corners [batch, P, 8] of rotated boxes,
# normalized to the image, with zeros after the last.
SHOWN_PROPOSALS = 'shown_proposals'
RAW_DETECTION_BOXES = 'raw_detection_boxes'  # float32 [batch, A, 4]; rotated [batch, A, 5]
RAW_DETECTION_SCORES = 'raw_detection_scores'  # float32 [batch, A, C + 1]
DETECTION_MULTICLASS_SCORES = 'detection_multiclass_scores'  # float32 [batch, N, C + 1]
DETECTION_ANCHOR_INDICES = 'detection_anchor_indices'  # int32 [batch, N]
# float32 [batch, N, mask height, mask width]: covers the box
DETECTION_MASKS = 'detection_masks'
# uint8 [batch, N, height, width]: covers the image that was sent, 0 or 1
REFRAMED_MASKS = 'detection_masks_reframed'
# float32 [batch, N, height', width', channels], from the second stage
DETECTION_FEATURES = 'detection_features'
CROPPED_FEATURES = 'cropped_rpn_box_features'  # likewise, pooled from the first stage
DETECTION_KEYPOINTS = 'detection_keypoints'  # float32 [batch, N, k, 2]
DETECTION_KEYPOINT_SCORES = 'detection_keypoint_scores'  # float32 [batch, N, k]
# float32 [batch, N, 4]: in cells of the feature map
DETECTION_BOXES_STRIDED = 'detection_boxes_strided'

# Possible outputs of post-processing.
DETECTIONS = (
    DETECTION_BOXES,
    DETECTION_SCORES,
    DETECTION_CLASSES,
    NUM_DETECTIONS,
    RAW_DETECTION_BOXES,
    RAW_DETECTION_SCORES,
    DETECTION_MULTICLASS_SCORES,
    DETECTION_ANCHOR_INDICES,
    DETECTION_MASKS,
    DETECTION_FEATURES,
    CROPPED_FEATURES,
    DETECTION_KEYPOINTS,
    DETECTION_KEYPOINT_SCORES,
    DETECTION_BOXES_STRIDED,
)
