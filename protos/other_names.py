"""Field names of other schema versions and similar systems, with the fields of this schema."""

from typing import NamedTuple, Tuple


class Renamed(NamedTuple):
    """Rule for a field of another version.

    Attributes:
        now: the name of the field here; empty: the field and its value are left out.
        more: fields to add to its message.
        why: the reason why the field is left out.
        refused: the error text for a value that is not in `values`; empty: any value is allowed.
        values: the allowed values.
        becomes: the replacements of `values`; empty: the value stays. Without `refused` any other
            value is one of this schema, and stays.
    """

    now: str = ''
    more: str = ''
    why: str = ''
    refused: str = ''
    values: Tuple[str, ...] = ()
    becomes: Tuple[str, ...] = ()


_IMAGES_OF_8_BITS = Renamed(
    why='images have 8 bits',
    refused='expected "uint8"; image_bits of a reader reads more bits.',
    values=('uint8',),
)
# The first releases of the published schema also had this field.
_FIRST_STAGE_ONLY = Renamed(
    'number_of_stages',
    refused='expected true or false.',
    values=('true', 'false'),
    becomes=('1', '2'),
)
_RECORDS_AS_THEY_ARE = Renamed(
    refused='no step of it is honored, because records are read as they are. In place of '
    'swap_height_width_of_rboxes and subtract_angle_of_rboxes: records with sides and angles as '
    'docs/data.md has them (--from=dota, --from=hrsc make some); of normalize_tiff: PNGs and '
    'image_bits; of cutoff_max_gts: max_number_of_boxes.'
)
# `cache` was a boolean before it had several kinds.
_RECORDS_OR_NONE = Renamed('cache', values=('true', 'false'), becomes=('RECORDS', 'NONE'))

# Rules by `message field/field name`, for the schema of a published detector of rotated boxes, a
# branch of the schema that this one follows.
RENAMED = {
    'model/rssd': Renamed('ssd', 'box_type: ROTATED'),
    'model/rfaster_rcnn': Renamed('faster_rcnn', 'box_type: ROTATED'),
    **{f'{model}/first_stage_only': _FIRST_STAGE_ONLY for model in ('faster_rcnn', 'rfaster_rcnn')},
    'anchor_generator/rssd_anchor_generator': Renamed('ssd_anchor_generator'),
    'rssd_anchor_generator/num_aspect_ration_of_middle_scale': Renamed(
        'interpolated_scale_aspect_ratio',
        refused='expected 0 or 1 anchor between two scales.',
        values=('0', '1'),
    ),
    **{
        f'{generator}/grid_rbbox_anchor_generator': Renamed('grid_anchor_generator')
        for generator in ('anchor_generator', 'first_stage_anchor_generator')
    },
    'box_coder/faster_rcnn_rbox_coder': Renamed('rotated_box_coder'),
    'batch_non_max_suppression/box_type': Renamed(why='box_type of the model says it'),
    'batch_non_max_suppression/handle_as_single_class': Renamed('use_class_agnostic_nms'),
    'data_augmentation_options/random_horizontal_flip_rbox': Renamed('random_horizontal_flip'),
    'data_augmentation_options/random_vertical_flip_rbox': Renamed('random_vertical_flip'),
    'data_augmentation_options/random_rotate_rbox': Renamed('random_rotation'),
    'random_rotate_rbox/min_value': Renamed('min_angle'),
    'random_rotate_rbox/max_value': Renamed('max_angle'),
    'random_rotate_rbox/by_90': Renamed('by_quarter_turns'),
    **{
        f'{reader}/{name}': rule
        for reader in ('train_input_reader', 'eval_input_reader')
        for name, rule in (
            ('image_dtype', _IMAGES_OF_8_BITS),
            ('preprocess_input_options', _RECORDS_AS_THEY_ARE),
            ('cache', _RECORDS_OR_NONE),
        )
    },
}

# Flags of DeepLab's train.py and eval.py and of TF-Slim's train_image_classifier.py, arguments of
# RunConfig, TrainSpec and EvalSpec, and fields of other systems.
ELSEWHERE = {
    'checkpoint_path': 'train_config.fine_tune_checkpoint',
    'eval_batch_size': 'eval_config.batch_size',
    'eval_image_size': 'model.classification.image_height',
    'eval_input_config': 'eval_input_reader',
    'ignore_missing_vars': 'train_config.ignore_missing_variables',
    'keep_checkpoint_max': 'train_config.checkpoints.keep_max',
    'label_map_file': 'train_input_reader.label_map_path',
    'log_every_n_steps': 'train_config.progress.every_n_steps',
    'log_step_count_steps': 'train_config.progress.every_n_steps',
    'log_steps': 'train_config.progress.every_n_steps',
    'max_number_of_steps': 'train_config.num_steps',
    'max_steps': 'train_config.num_steps',
    'max_to_keep': 'train_config.checkpoints.keep_max',
    'model_name': 'model.classification.backbone.name',
    'model_variant': 'model.segmentation.backbone.name',
    'num_train_steps': 'train_config.num_steps',
    'preprocessing_name': 'model.classification.preprocessing',
    'save_checkpoints_secs': 'train_config.checkpoints.save_every_n_seconds',
    'save_checkpoints_steps': 'train_config.checkpoints.save_every_n_steps',
    'save_interval_secs': 'train_config.checkpoints.save_every_n_seconds',
    'save_summaries_steps': 'train_config.progress.summary_every_n_steps',
    'save_summary_steps': 'train_config.progress.summary_every_n_steps',
    'start_delay_secs': 'eval_config.schedule.start_delay_seconds',
    'tf_initial_checkpoint': 'train_config.fine_tune_checkpoint',
    'tf_random_seed': 'train_config.random_seed',
    'throttle_secs': 'eval_config.schedule.throttle_seconds',
    'train_batch_size': 'train_config.batch_size',
    'train_image_size': 'model.classification.image_height',
    'train_input_config': 'train_input_reader',
    'train_steps': 'train_config.num_steps',
}
