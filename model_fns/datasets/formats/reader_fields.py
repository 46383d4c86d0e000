"""Formats of the converter by the fields of an input reader."""

from __future__ import annotations

# The value of `--from`, by the reader's field of the input reader.
FORMATS = {
    'coco_input_reader': 'coco',
    'voc_input_reader': 'voc',
    'yolo_input_reader': 'yolo',
    'folder_input_reader': 'folders',
    'mask_input_reader': 'masks',
    'instance_input_reader': 'instances',
    'labelme_input_reader': 'labelme',
    'panoptic_input_reader': 'panoptic',
    'csv_input_reader': 'csv',
}
