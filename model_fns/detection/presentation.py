"""Presentation of detections: pictures, descriptions, files of results, merged tiles."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.drawing.tiling import Window
from estimator_lib.task import AS_CONFIGURED, Arrays, Description, Presentation, Region, Shown
from model_fns.detection import fields
from model_fns.detection.data.inputs import Reader
from model_fns.detection.detections import descriptions, merging
from model_fns.detection.detections.pictures import Drawer
from model_fns.detection.detector import Detector
from model_fns.detection.metrics import best_f1
from model_fns.structures.label_map import FIRST_ID


class DetectionPresentation(Presentation):
    """Presentation of detections.

    Args:
        model: the detector.
        reader: has the names of the classes.
        drawer: draws detections.
    """

    def __init__(self, model: Detector, reader: Reader, drawer: Drawer):
        names, ids = reader.class_names(), range(FIRST_ID, FIRST_ID + model.num_classes)
        self.class_names = [names.get(class_id, str(class_id)) for class_id in ids]
        self._model, self._reader, self._drawer = model, reader, drawer
        self.described_outputs = descriptions.needed_outputs(model.family, model.outputs)
        self._merges_tiles = fields.DETECTION_KEYPOINTS not in model.outputs
        # Tiles are predicted as requests, which have no features of other images.
        if self._merges_tiles and reader.context is None:
            corners = [fields.DETECTION_CORNERS] if model.family.IS_ROTATED else []
            masks = {fields.DETECTION_MASKS} & model.outputs
            self.tiled_outputs = (*merging.NAMES, *corners, *masks)

    def worth_showing(self, metrics: Mapping[str, float]) -> Shown:
        """Select detections by the score of the best F1, unless the config has a score."""
        if self._drawer.min_score is not None:
            return AS_CONFIGURED
        return Shown(least_score=metrics.get(best_f1.SCORE_THRESHOLD))

    def least_score(self, metrics: Mapping[str, float]) -> float:
        """Return the least score of detections that are shown, given the metrics."""
        return self._drawer.showing(self.worth_showing(metrics)).least_score

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> Optional[np.ndarray]:
        """Draw detections, next to the groundtruth if it is known."""
        return self._drawer.showing(shown).draw(features, outputs, labels)

    def describe(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Description:
        """Describe detections by names and boxes in pixels, with a picture of the best."""
        detections = self._find(features, outputs, shown)
        rows = descriptions.rows(detections, self._drawer.class_names)
        picture = self.draw(features, outputs, shown=shown)
        return Description(descriptions.values(detections, rows), rows, picture)

    def nothing_found(self, shown: Shown, worth_showing: Shown) -> str:
        """Describe the score threshold that no detection of an image reached, and its source."""
        score, source = self._drawer.least_score, 'the default of eval_config.min_score_threshold'
        if shown.least_score is not None:
            score, source = shown.least_score, '--score_threshold'
        elif worth_showing.least_score is not None:
            score, source = worth_showing.least_score, 'the best F1 in the evaluation'
        elif self._drawer.min_score is not None:
            source = 'eval_config.min_score_threshold'
        whose = '' if shown.class_indices is None else ' of these classes'
        text = f'0 detections{whose} reached {score:.3g} (from {source})'
        return f'{text}; --score_threshold lowers it'

    def regions(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Sequence[Region]:
        """Return the detections that `describe` describes, with masks if there are any."""
        return descriptions.regions(self._find(features, outputs, shown))

    def coco_results(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Sequence[Mapping[str, Any]]:
        """Convert detections to the result format of COCO."""
        return descriptions.coco_results(self._find(features, outputs, shown.or_else(Shown(0.0))))

    def submission_lines(
        self, stem: str, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Mapping[str, Sequence[str]]]:
        """Format rotated boxes for DOTA; None for axis-aligned boxes."""
        if not self._model.family.IS_ROTATED:
            return None
        detections = self._find(features, outputs, shown.or_else(Shown(0.0)))
        return descriptions.dota_lines(stem, detections, self._reader.class_names())

    def _find(self, features: Arrays, outputs: Arrays, shown: Shown) -> descriptions.Found:
        least_score = self._drawer.least_score
        return descriptions.find(outputs, features[fields.IMAGE].shape, least_score, shown)

    def merge_tiles(
        self, tiles: Iterable[Tuple[Window, Arrays]], size: Tuple[int, int]
    ) -> Optional[Arrays]:
        """Merge the detections of tiles, with their masks; None for models with keypoints."""
        return merging.merge(tiles, size) if self._merges_tiles else None

    def evaluated_tiles(self, merged: Arrays) -> Arrays:
        """Return detections whose masks, if there are any, have one size."""
        return merging.with_even_masks(merged)
