"""Decisions on the config of a detector, from the facts of a data set and a user's wishes.

The defaults are what was measured to gain on data that no config here was tuned on: an input whose
area is that of 256 x 256 with the shape of the images, no vertical flips, a learning rate of 0.005.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from google.protobuf import text_format

from estimator_lib import environment, errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.config import metric_choices
from estimator_lib.distribution import half_types
from estimator_lib.graphs import losses
from model_fns.detection import anchor_proposal, box_report
from model_fns.detection.config_rules.kinds import is_rotated
from model_fns.detection.data import context_features
from model_fns.detection.metrics.keypoint_similarity import COCO_SIGMAS
from model_fns.detection.networks import torchvision_weights
from model_fns.recipes import decisions
from model_fns.recipes import tiles as recipe_tiles
from model_fns.recipes.decisions import Wishes
from model_fns.recipes.facts import Facts
from model_fns.recipes.writing import Decision, Recipe
from model_fns.structures.label_map import LabelMap
from protos import image_resizer_pb2, pipeline_pb2, reader_paths

_LARGEST = 640  # pixels of a side that is not asked for: memory and time of a first run
_USUAL_SIDE = 256.0
_MULTIPLE, _LEAST_SIDE = 32, 64
_FAR_LARGER = 2.0  # times the input, of images that are cut into tiles for small objects
_MOST_WITHOUT_ANCHOR = 0.02  # share of the boxes
_MANY_WITHOUT_ANCHOR = 0.05  # of fitted anchors: small boxes lie between the cells
_SEEN = 12.0  # pixels of the side of the median object
_LARGE = 96.0  # where large objects begin, by COCO's areas
_ROOM = 2  # times the objects of the fullest image
_LEAST_DETECTIONS, _MOST_DETECTIONS = 100, 1000
_SIGMA = 0.05  # of keypoints without published ones: those of COCO are 0.025 to 0.107
_MOST_KEYPOINT_CLASSES = 5  # that are evaluated: each has some lines in the config
_RATE = 'train_config.optimizer.adam_optimizer.learning_rate.cosine_decay_learning_rate'
_STEPS = 'train_config.data_augmentation_options'
_CHANNELS, _MEMORY_SHARE = 3, 4  # a quarter of the machine's memory holds tiles
_SIZED = ('fixed_shape_resizer', 'keep_aspect_ratio_resizer')
_PRETRAINED_SIDE = 320.0  # of detectors that start from weights of photographs of 800 pixels
# Scopes that begin the names of variables in checkpoints of detectors.
_SCOPES = ('FeatureExtractor/', 'FirstStageFeatureExtractor/', 'KerasFirstStageFeatureExtractor/')


class _Family(NamedTuple):
    """Config that a task of detection begins with.

    Attributes:
        base: name of a config of the package.
        usual_side: root of the area of its input in pixels.
        metric: of the best export.
    """

    base: str
    usual_side: float
    metric: str


FAMILIES = {
    'detection': _Family('bccd_ssd', _USUAL_SIDE, 'DetectionBoxes_Precision/mAP@.50IOU'),
    'rotated': _Family('demo_rotated', _USUAL_SIDE, 'RotatedBoxes_Precision/mAP@0.5IOU'),
    'instances': _Family(
        'nuclei_mask_rcnn_fpn', _USUAL_SIDE, 'DetectionMasks_Precision/mAP@.50IOU'
    ),
    'keypoints': _Family('demo_keypoint_rcnn', _USUAL_SIDE, 'DetectionBoxes_Precision/mAP@.50IOU'),
}
SCHEDULED_RATE = _RATE
USUAL_SIDE = _USUAL_SIDE
# Of small objects a larger input shows more than further images: blood cells reach 0.82 mAP@.50
# with 1,600 images of 320 x 416 pixels, and 0.64 with 3,800 of 224 x 288, in the same time.
ENOUGH_IMAGES = 3000


def base_config(task: str, weights: str) -> str:
    """Return the name of the package's config that a task begins with.

    Args:
        task: one of `FAMILIES`.
        weights: path or name of initial weights; '': none. A detector of torchvision has a config.

    Raises:
        errors.UserError: the weights are those of a detector for another task.
    """
    if not weights:
        return FAMILIES[task].base
    start = checkpoint_files.open_checkpoint(checkpoint_files.resolve_start(weights, '--weights'))
    family = getattr(start, 'family', None)
    if not isinstance(family, torchvision_weights.Detector):
        return FAMILIES[task].base
    if task != family.task:
        raise errors.UserError(
            f'--weights={weights}: those of {family.name} are for --task={family.task}, and the '
            f'task of the data is {task}.'
        )
    return family.config


def _is_pretrained(recipe: Recipe) -> bool:
    """Return whether the base is a detector of torchvision, which keeps what its weights need."""
    model = recipe.config.model
    extractor = getattr(model, model.WhichOneof('model')).feature_extractor
    return extractor.fpn.layout == extractor.fpn.TORCHVISION


def decide(
    recipe: Recipe, task: str, facts: Facts, wishes: Wishes, mirrored: Sequence[int] = ()
) -> None:
    """Make all decisions but those on the length of the run.

    Args:
        recipe: of the base config, with the readers.
        task: one of `FAMILIES`.
        facts: of the data.
        wishes: of the user.
        mirrored: number of the keypoint that each becomes in a mirrored image.
    """
    family = FAMILIES[task]
    name = recipe.config.model.WhichOneof('model')
    model = f'model.{name}'
    classes = len(facts.class_names)
    recipe.decide(Decision(f'{model}.num_classes', classes))
    pretrained = _is_pretrained(recipe)
    side = _PRETRAINED_SIDE if pretrained else family.usual_side
    whole = facts
    if task in recipe_tiles.TASKS:
        facts = _decide_tiles(recipe, facts, wishes.size, side)
    recipe.decide(*_size_decisions(model, task, facts, wishes, side))
    adapts = task == 'detection' and not pretrained and _suits_adaptive_matcher(recipe, facts)
    if adapts:
        recipe.decide(*_assignment_decisions(model))
    recipe.decide(*_room_decisions(recipe, name, facts))
    if facts is not whole:
        most = max(whole.most_rows(), _LEAST_DETECTIONS)
        recipe.decide(Decision('eval_input_reader.0.max_number_of_boxes', most))
    recipe.decide(*_augmentation(recipe, task, facts, mirrored))
    if not pretrained:
        recipe.decide(*_optimization(recipe, task))
    recipe.decide(*_reading(recipe, whole if facts is not whole else None))
    recipe.decide(*decisions.repeat_decisions(facts))
    recipe.decide(*decisions.weight_decisions(wishes.weights, _SCOPES, 'detection'))
    recipe.decide(Decision('export_config.best.metric', f'"{family.metric}"'))
    if not (pretrained or adapts):
        recipe.decide(*_anchor_decisions(recipe, facts))
    recipe.warnings += list_warnings(recipe, facts)


def _decide_tiles(recipe: Recipe, facts: Facts, size: Optional[int], usual: float) -> Facts:
    """Decide whether images are cut; return the facts of what training sees.

    The time that there is does not count: a larger input of whole images costs more than tiles.

    Args:
        recipe: with the readers.
        facts: of whole images.
        size: longer side of the input that the user asks for; None: none.
        usual: root of the area of the input for few minutes.
    """
    if not reader_paths.files_kind(recipe.config.train_input_reader):
        return facts  # records are cut when they are converted
    side, _ = input_side(facts.sides(), usual, None, facts.typical_size())
    if size is not None:
        side = float(np.sqrt(np.prod(decisions.shape_of_input(side, facts.aspect(), 1, size))))
        usual = float(size)
    choice = recipe_tiles.choose(facts, side, usual)
    if choice is None:
        return facts
    recipe.decide(*recipe_tiles.decisions(choice))
    return facts.cut(choice.tiling, recipe_tiles.LEAST_INSIDE)


def input_side(
    sides: np.ndarray, usual: float, affordable: Optional[float], typical: Tuple[int, int]
) -> Tuple[float, str]:
    """Decide the root of the input's area, with its reason.

    Args:
        sides: of all objects, as shares of the images: [n].
        usual: side for few minutes.
        affordable: side that the minutes pay for; None: not known.
        typical: height and width of an image in pixels.
    """
    few, most = decisions.LEAST_PIXELS, decisions.CLEAR_PIXELS
    least = decisions.side_for_objects(sides) if len(sides) else 0.0
    clear = decisions.side_for_objects(sides, most) if len(sides) else usual
    largest = max(usual, min(_LARGEST, 2.0 * max(typical)))
    wanted = max(usual, min(affordable or usual, clear))
    if least > wanted:
        reason = f'{least:.0f} pixels give 95 % of the objects {few} or more'
        if least <= largest:
            return least, reason
        return largest, f'{reason}; {largest:.0f} is the most that is not asked for (--size)'
    side = min(wanted, largest)
    if side == usual:
        reason = 'The usual area, of'
    elif side == clear:
        reason = f'95 % of the objects have {most} pixels or more with'
    else:
        reason = 'The time pays for'
    own = few * side / least if least else 0.0
    more = f'; 95 % of the objects have more than {own:.0f} pixels there' if side != clear else ''
    return side, f'{reason} {side:.0f} x {side:.0f} pixels{more if own else ""}'


def _size_decisions(
    model: str, task: str, facts: Facts, wishes: Wishes, usual: float
) -> Iterator[Decision]:
    """Decide the size of the network's input."""
    side, reason = input_side(facts.sides(), usual, wishes.affordable, facts.typical_size())
    if wishes.size is not None:
        reason = f'--size={wishes.size}'
    shape = decisions.shape_of_input(side, facts.aspect(), _MULTIPLE, wishes.size)
    height, width = (max(each, _LEAST_SIDE) for each in shape)
    reason += f'. The shape is that of the images, {facts.aspect():.2f}:1'
    if task == 'instances':
        resizer = 'keep_aspect_ratio_resizer'
        sides = f'min_dimension: {min(height, width)} max_dimension: {max(height, width)}'
    else:
        resizer, sides = 'fixed_shape_resizer', f'height: {height} width: {width}'
    yield Decision(f'{model}.image_resizer', f'{{ {resizer} {{ {sides} }} }}', reason)
    if task == 'rotated':  # the base is for inputs of 128 pixels
        yield Decision(f'{model}.feature_extractor.fpn.max_level', 6)
        yield Decision(f'{model}.anchor_generator.multiscale_anchor_generator.max_level', 6)


def _suits_adaptive_matcher(recipe: Recipe, facts: Facts) -> bool:
    """Return whether most objects are neither tiny nor large at the network's input.

    Fixed thresholds leave many small objects without anchors. In few minutes large ones learn more
    from the many anchors that overlap them (raccoons of 154 pixels: 0.626 mAP@.50 in place of
    0.555), and smaller ones than a cell and a half have one anchor each by either matcher.
    """
    sides = facts.sides()
    middle = float(np.median(sides)) * network_side(recipe) if len(sides) else 0.0
    return _SEEN <= middle <= _LARGE


def _assignment_decisions(model: str) -> Iterator[Decision]:
    """Decide which anchors there are, which of them an object has, and what they learn."""
    reason = 'Each object has an anchor, whatever its size and shape: no anchors are fitted'
    yield Decision(f'{model}.matcher', '{ atss_matcher { } }', reason)
    anchors = f'{model}.anchor_generator.multiscale_anchor_generator'
    yield Decision(f'{anchors}.anchor_scale', 4.0, 'One square anchor of 4 strides in a cell')
    yield Decision(f'{anchors}.aspect_ratios', '[1.0]')
    yield Decision(f'{anchors}.scales_per_octave', 1)
    loss = f'{model}.loss'
    reason = 'A score is the overlap of the box too: the best box of an object is kept'
    yield Decision(f'{loss}.classification_loss', '{ quality_focal { } }', reason)
    yield Decision(f'{loss}.localization_loss', '{ weighted_giou { } }')
    yield Decision(f'{loss}.localization_weight', 2.0)
    yield Decision(f'{model}.normalize_loc_loss_by_codesize', False)


def _room_decisions(recipe: Recipe, name: str, facts: Facts) -> Iterator[Decision]:
    """Decide how many objects of an image training keeps, and detections a model has."""
    most = facts.most_objects()
    room = min(max(_ROOM * most, _LEAST_DETECTIONS), _MOST_DETECTIONS)
    processing = 'post_processing' if name == 'ssd' else 'second_stage_post_processing'
    suppression = f'model.{name}.{processing}.batch_non_max_suppression'
    reason = f'The fullest image has {most} objects' if room > _LEAST_DETECTIONS else ''
    yield Decision(f'{suppression}.max_detections_per_class', room, reason)
    yield Decision(f'{suppression}.max_total_detections', room)
    if name == 'faster_rcnn':
        yield Decision('model.faster_rcnn.first_stage_max_proposals', max(room, 150))
    if recipe.config.train_input_reader.num_keypoints:
        head = 'second_stage_box_predictor.mask_rcnn_box_predictor.keypoint_head.num_keypoints'
        count = recipe.config.train_input_reader.num_keypoints
        yield Decision(f'model.faster_rcnn.{head}', count)
        recipe.config.eval_config.ClearField('keypoint_edge')
        _evaluate_keypoints(recipe, count)
    for reader in ('train_input_reader', 'eval_input_reader.0'):
        yield Decision(f'{reader}.max_number_of_boxes', max(facts.most_rows(), _LEAST_DETECTIONS))


def _evaluate_keypoints(recipe: Recipe, count: int) -> None:
    """Evaluate the keypoints of the classes, which the label map names."""
    evaluation = recipe.config.eval_config
    evaluation.ClearField('parameterized_metric')  # of the classes of the base
    label_map = LabelMap.read(recipe.config.train_input_reader.label_map_path)
    of_persons = count == len(COCO_SIGMAS)
    known = [item for item in label_map.items if item.keypoints or of_persons]
    for item in known[:_MOST_KEYPOINT_CLASSES]:
        metric = evaluation.parameterized_metric.add().coco_keypoint_metrics
        metric.class_label = item.name
        if not of_persons:
            metric.keypoint_label_to_sigmas.update({name: _SIGMA for _, name in item.keypoints})
    recipe.reasons['eval_config'] = (
        'Keypoints have the sigmas of a person in COCO'
        if of_persons
        else f'Keypoints count as found within distances of sigma, {_SIGMA:g} of the size of their '
        'object: the middle of those of COCO'
    )


def _augmentation(
    recipe: Recipe, task: str, facts: Facts, mirrored: Sequence[int]
) -> Iterator[Decision]:
    """Decide how images are varied: mirrored only where that makes another image of the class."""
    steps: List[str] = []
    sided = decisions.find_sided(facts.class_names)
    reason = decisions.mirror_reason(sided)
    if task == 'keypoints' and not sided:
        if mirrored:
            steps.append(
                f'random_horizontal_flip {{ keypoint_flip_permutation: {list(mirrored)} }}'
            )
        else:
            reason = 'No mirrored images: nothing says which keypoint is the mirror image of which'
    elif not sided:
        steps.append('random_horizontal_flip { }')
    if task == 'detection':
        steps += [
            'random_adjust_brightness { max_delta: 0.1 }',
            'random_adjust_contrast { }',
            'random_crop_image { min_object_covered: 0.0 min_aspect_ratio: 0.75 '
            'max_aspect_ratio: 1.33 min_area: 0.3 overlap_thresh: 0.3 random_coef: 0.5 }',
        ]
        reason += '. Half of the images are cut: parts of 0.3 or more of their area'
    recipe.config.train_config.ClearField('data_augmentation_options')
    for number, step in enumerate(steps):
        yield Decision(f'{_STEPS}.{number}', f'{{ {step} }}')
    recipe.reasons[_STEPS if steps else 'train_config'] = reason


def _optimization(recipe: Recipe, task: str) -> Iterator[Decision]:
    """Decide batch, learning rate and arithmetic."""
    config = recipe.config.train_config
    if task in ('instances', 'keypoints', 'detection'):
        yield Decision('train_config.batch_size', 4, 'Small batches: many updates in little time')
    if task == 'detection':
        reason = 'Measured on other data sets: 0.002 learns less in minutes'
        yield Decision(f'{_RATE}.learning_rate_base', 0.005, reason)
        yield Decision(f'{_RATE}.warmup_learning_rate', 0.0005)
        if half_types.half_type() is None:
            config.ClearField('use_bfloat16')


def _reading(recipe: Recipe, cut: Optional[Facts]) -> Iterator[Decision]:
    """Decide how examples are read, and the batches of the evaluation.

    Args:
        recipe: with the batch size of training.
        cut: facts of the images that are cut into tiles; None: they stay whole.
    """
    cache, reason = 'MEMORY', ''
    if cut is not None:
        # The decoded size of the images is more than their tiles take in a compressed form.
        size = _CHANNELS * sum(height * width for (height, width), *_ in cut.train)
        if size <= environment.memory_bytes() // _MEMORY_SHARE:
            cache, reason = 'RECORDS', 'Each image is cut once: MEMORY would cut it at every step'
    yield Decision('train_input_reader.cache', cache, reason)
    batch_size = recipe.config.train_config.batch_size
    yield Decision('eval_config.batch_size', min(max(batch_size, 1), 4))


def improve(recipe: Recipe, facts: Facts) -> None:
    """Change what `--mode=check` warns of: the shape of the input, small objects, anchors.

    Args:
        recipe: of a user's config, with its readers.
        facts: of the data.
    """
    name = recipe.config.model.WhichOneof('model')
    if getattr(recipe.config.model, name).image_resizer.HasField('fixed_shape_resizer'):
        if _takes_tiles(recipe.config):
            facts = _decide_tiles(recipe, facts, None, network_side(recipe))
        height, width = network_size(recipe)
        side = float(np.sqrt(height * width))
        aspects = [image.size[1] / image.size[0] for image in facts.train]
        odd = decisions.odd_aspect(aspects, width / height)
        small = decisions.small_objects(facts.sides() * side)
        if small:
            side = max(side, min(decisions.side_for_objects(facts.sides()), _LARGEST))
        if odd or small:
            shape = decisions.shape_of_input(side, facts.aspect(), _MULTIPLE, None)
            height, width = (max(each, _LEAST_SIDE) for each in shape)
            fixed = f'model.{name}.image_resizer.fixed_shape_resizer'
            reason = '; '.join(filter(None, (odd, small)))
            recipe.decide(Decision(f'{fixed}.height', height, reason))
            recipe.decide(Decision(f'{fixed}.width', width))
    if name in anchor_proposal.KINDS:
        recipe.decide(*_anchor_decisions(recipe, facts))
    recipe.warnings += list_warnings(recipe, facts)


def _takes_tiles(config: pipeline_pb2.TrainEvalPipelineConfig) -> bool:
    """Return whether a user's config is valid with tiles, and is of a task that may have them."""
    if is_rotated(config) or not _merges_tiles(config) or config.eval_config.tiles.size:
        return False
    if any(reader.tiles.size for reader in (config.train_input_reader, *config.eval_input_reader)):
        return False
    return not any(losses.is_loss(choice.metric) for _, choice in metric_choices.choices(config))


def _merges_tiles(config: pipeline_pb2.TrainEvalPipelineConfig) -> bool:
    """Return whether predictions for tiles can be put together."""
    readers = (config.train_input_reader, *config.eval_input_reader)
    has_keypoints = any(reader.num_keypoints for reader in readers)
    return not has_keypoints and context_features.build(config) is None


def to_records(facts: Facts) -> List[box_report.Record]:
    """Return what the report of boxes takes."""
    return [
        box_report.Record(image.size, boxes.astype(np.float32), (1,) * len(boxes))
        for image in facts.train
        for boxes in [image.boxes if image.rotated is None else image.rotated]
    ]


def _anchor_decisions(recipe: Recipe, facts: Facts) -> Iterator[Decision]:
    """Decide the anchors: those of the base, or fitted ones where many boxes meet none."""
    fitted = anchor_proposal.fit(recipe.config, to_records(facts))
    if isinstance(fitted, str):
        return
    name = recipe.config.model.WhichOneof('model')
    field = f'model.{name}.{anchor_proposal.KINDS[name].field}'
    before, after = fitted.before, fitted.after
    without = before.unmatched_share()
    kept = f'{without:.1%} of the boxes meet no anchor by an overlap of {before.threshold:g}'
    if without <= _MOST_WITHOUT_ANCHOR or after is None:
        recipe.reasons[field] = kept
        return
    rest = after.unmatched_share()
    if rest >= without:
        recipe.reasons[field] = f'{kept}; k-means finds none that fit better'
        return
    reason = f'Fitted to the boxes by k-means: {rest:.1%} meet none, {without:.1%} before'
    text = text_format.MessageToString(fitted.generator, as_one_line=True)
    yield Decision(field, f'{{ {text} }}', reason)
    if name == 'ssd' and rest > _MANY_WITHOUT_ANCHOR:
        matcher = f'model.{name}.matcher.argmax_matcher'
        reason = f'0.5 would leave {rest:.0%} of the boxes one anchor each'
        yield Decision(f'{matcher}.matched_threshold', 0.4, reason)
        yield Decision(f'{matcher}.unmatched_threshold', 0.3)


def list_warnings(recipe: Recipe, facts: Facts) -> List[str]:
    """Return a sentence for each thing that hurts and that no decision removes."""
    if _resizer(recipe).WhichOneof('image_resizer_oneof') not in _SIZED:
        return []  # the input has the size of each image
    height, width = network_size(recipe)
    sides = facts.sides() * np.sqrt(height * width)
    small = decisions.small_objects(sides)
    if not small:
        return []
    largest = max(max(image.size) for image in facts.train)
    side = max(height, width)
    if largest > _FAR_LARGER * side and _merges_tiles(recipe.config):
        return [
            f'{small}, and images have up to {largest}: tiles of {side} of the training reader '
            '(of records: convert-records --tile) and of eval_config show them larger, and '
            '--mode=predict --tile merges what is found in them'
        ]
    return [f'{small}; a larger --size shows more of them']


def network_side(recipe: Recipe) -> float:
    """Return the root of the area of the network's input in pixels."""
    height, width = network_size(recipe)
    return float(np.sqrt(height * width))


def network_size(recipe: Recipe) -> Tuple[int, int]:
    """Return height and width of the network's input, the largest where it varies."""
    resizer = _resizer(recipe)
    if resizer.HasField('fixed_shape_resizer'):
        return resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width
    kept = resizer.keep_aspect_ratio_resizer
    return kept.min_dimension, kept.max_dimension


def _resizer(recipe: Recipe) -> image_resizer_pb2.ImageResizer:
    model = recipe.config.model
    return getattr(model, model.WhichOneof('model')).image_resizer
