"""Recognition of the keypoints of CenterNets: their heads, and how they are searched."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from google.protobuf import text_format

from model_fns.detection.architectures.center_net import heads, keypoints
from model_fns.structures import label_map_files
from protos import center_net_pb2, label_map_pb2
from vision_extras.recover import bases
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.facts import Proposal, Refusal

# Shapes of the layers of heads, by the name of the head.
Layers = Mapping[str, Sequence[Tuple[int, ...]]]
_Task = center_net_pb2.CenterNet.KeypointEstimation

_WHERE = 'model.center_net.keypoint_estimation_task'
_HEATMAP = re.compile(rf'^(.+)/{keypoints.HEATMAP}$')
_PARTS = (keypoints.HEATMAP, keypoints.OFFSET, keypoints.REGRESSION)
_EVIDENCE = 'names and shapes of all kernels'
_SELECTIONS = ('Select', 'SelectV2')
# Between the keypoints of a task and those of all.
_SPREADING = ('Einsum', 'Reshape', 'MatMul', 'BatchMatMulV2', 'Identity', 'Transpose')
# By the type of the node that computes ranks of candidates.
_RANKINGS = {
    'Neg': 'min_distance',
    'RealDiv': 'score_distance_ratio',
    'DivNoNan': 'score_scaled_distance_ratio',
    'Mul': 'gaussian_weighted',
}
_NUMBERS = {  # fields of rankings
    'score_distance_ratio': 'score_distance_offset',
    'score_scaled_distance_ratio': 'score_distance_multiplier',
}


class _Place(NamedTuple):
    """Place of the keypoints of a task.

    Attributes:
        class_index: index of their class, from 0.
        numbers: of the keypoints among those of all tasks; empty: not known.
    """

    class_index: int
    numbers: List[int]


def task_names(layers: Layers) -> List[str]:
    """Return the names of the tasks of keypoints among heads."""
    matches = [match for match in map(_HEATMAP.match, layers) if match]
    return [
        match.group(1)
        for match in matches
        if all(f'{match.group(1)}/{part}' in layers for part in _PARTS)
    ]


def head_names(tasks: Sequence[str]) -> List[str]:
    """Return the names of the heads of tasks."""
    return [f'{task}/{part}' for task in tasks for part in _PARTS]


def add_tasks(proposal: Proposal, layers: Layers, graph: Optional[Graph], end: str) -> None:
    """Add tasks of keypoints to the config of a CenterNet, and a label map with their names.

    Args:
        proposal: of the CenterNet without keypoints; changed in place.
        layers: shapes of the layers of heads.
        graph: of the artifact; None for a checkpoint.
        end: node of the scores of keypoints in the graph; empty: there is none.

    Raises:
        Refusal: the graph searches keypoints in another way.
    """
    model = proposal.config.model.center_net
    template = bases.published('center_net').center_net.keypoint_estimation_task[0]
    class_ids: List[int] = []
    numbers: List[List[int]] = []  # of the keypoints of each task
    for index, name in enumerate(task_names(layers)):
        task = model.keypoint_estimation_task.add(task_name=name)
        task.MergeFrom(template)
        count, first = _set_heads(task, layers, proposal), sum(map(len, numbers))
        class_ids.append(index + 1)
        numbers.append(list(range(first, first + count)))
        if graph is not None:
            place = _read_search(task, graph, end, proposal)
            class_ids[-1], numbers[-1] = place.class_index + 1, place.numbers or numbers[-1]
        task.keypoint_class_name = _class_name(class_ids[-1])
    if len(set(class_ids)) < len(class_ids) or max(class_ids) > model.num_classes:
        raise Refusal(f'its keypoints are of the classes {class_ids}, once each is supported')
    model.keypoint_label_map_path = label_map_files.FILE
    proposal.files[label_map_files.FILE] = _label_map(
        model.num_classes, dict(zip(class_ids, numbers))
    )
    for reader in (proposal.config.train_input_reader, *proposal.config.eval_input_reader):
        reader.num_keypoints = sum(map(len, numbers))
    del proposal.config.train_config.data_augmentation_options[:]
    proposal.unknown.append(
        f'It does not tell the names of classes and keypoints: {label_map_files.FILE} numbers '
        'them. Nor does it tell which keypoints change places in a mirrored image, so no images '
        'are mirrored in training.'
    )
    if graph is None:
        proposal.unknown.append(
            'A checkpoint tells neither the classes with keypoints nor how keypoints are searched.'
        )


def _learn(task: _Task, values: Mapping[str, Any], evidence: str, proposal: Proposal) -> None:
    """Set fields of a task; each is a fact."""
    for name, value in values.items():
        value = float(f'{value:.6g}') if isinstance(value, float) else value
        setattr(task, name, proposal.learn(f'{_WHERE}.{name}', value, evidence))


def _set_heads(task: _Task, layers: Layers, proposal: Proposal) -> int:
    """Set the heads of a task; return its number of keypoints."""
    parts = ('heatmap_head_params', 'offset_head_params', 'regress_head_params')
    for part, field in zip(_PARTS, parts):
        head, shapes = getattr(task, field), layers[f'{task.task_name}/{part}'][:-1]
        head.num_filters.extend(shape[-1] for shape in shapes)
        head.kernel_sizes.extend(shape[0] for shape in shapes)
    for field in (*parts, 'task_name'):
        proposal.learn(f'{_WHERE}.{field}', f'those of {task.task_name}', _EVIDENCE)
    count, offsets = (layers[f'{task.task_name}/{part}'][-1][-1] for part in _PARTS[:2])
    is_own = offsets == 2 * count and count > 1
    _learn(task, {'per_keypoint_offset': is_own}, _EVIDENCE, proposal)
    return count


def _read_search(task: _Task, graph: Graph, end: str, proposal: Proposal) -> _Place:
    """Read how keypoints of a task are searched, and where they are in the outputs."""
    prefix = f'{heads.SCOPE}/{task.task_name}/{keypoints.HEATMAP}/'
    chosen = next(_choices(graph, end, prefix), None) if end else None
    if chosen is None:
        raise Refusal(f'its graph does not search the keypoints of {task.task_name}')
    terms = [*_conditions(graph, chosen)]
    conditions = {graph.nodes[name].op: name for name in reversed(terms)}  # the first of an op
    numbers = {
        'unmatched_keypoint_score': _scalar(graph, chosen),
        'keypoint_candidate_score_threshold': _scalar(graph, conditions.get('GreaterEqual', '')),
        'box_scale': _nearest_factor(graph, conditions.get('All', '')),
        'candidate_search_scale': _nearest_factor(graph, conditions.get('LessEqual', '')),
    }
    for name, number in numbers.items():
        if number is None:
            raise Refusal(f'its graph does not tell {name} of {task.task_name}')
    _learn(task, numbers, f'constants near {chosen}', proposal)
    _read_candidates(task, graph, chosen, proposal)
    return _read_ending(task, graph, chosen, proposal)


def _choices(graph: Graph, end: str, prefix: str) -> Iterator[str]:
    """Yield the nodes that choose between candidates of a heat map and other scores."""
    for name in graph.ancestors([end]):
        if graph.nodes[name].op in _SELECTIONS and _scalar(graph, name) is not None:
            condition = graph.source(graph.inputs(name)[0])
            if graph.nodes[condition].op == 'LogicalAnd' and any(
                each.startswith(prefix) for each in graph.ancestors([name])
            ):
                yield name


def _conditions(graph: Graph, name: str) -> Iterator[str]:
    """Yield the terms of the condition of a choice."""
    waiting = [graph.source(graph.inputs(name)[0])]
    while waiting:
        term = waiting.pop()
        if graph.nodes[term].op == 'LogicalAnd':
            waiting += map(graph.source, graph.inputs(term))
        else:
            yield term


def _scalar(graph: Graph, name: str) -> Optional[float]:
    """Return the number among the inputs of a node; None: there is none."""
    for source in graph.inputs(name) if name else []:
        value = graph.constant(source)
        if value is not None and value.size == 1 and value.dtype.kind == 'f':
            return float(value.ravel()[0])
    return None


def _nearest_factor(graph: Graph, name: str) -> Optional[float]:
    """Return the number of the last product before the bound that values are compared with."""
    if name and graph.nodes[name].op == 'All':
        name = graph.source(graph.inputs(name)[0])
    if not name or graph.nodes[name].op != 'LessEqual':
        return None
    bound = graph.inputs(name)[1]
    products = (each for each in graph.ancestors([bound]) if graph.nodes[each].op == 'Mul')
    factors = (_scalar(graph, each) for each in products)
    return next((factor for factor in factors if factor is not None), None)


def _read_candidates(task: _Task, graph: Graph, chosen: str, proposal: Proposal) -> None:
    """Read the number, the peaks and the ranking of candidates."""
    best = next((n for n in graph.ancestors([chosen]) if graph.nodes[n].op == 'ArgMax'), None)
    scores = graph.inputs(chosen)[1]
    top = next((n for n in graph.ancestors([scores]) if graph.nodes[n].op == 'TopKV2'), None)
    count = None if top is None else graph.constant(graph.inputs(top)[1])
    rank = '' if best is None else graph.source(graph.inputs(best)[0])
    if top is None or count is None or not rank or graph.nodes[rank].op not in _RANKINGS:
        raise Refusal(f'its graph does not tell how candidates of {task.task_name} are ranked')
    pooled = next((n for n in graph.ancestors([top]) if graph.nodes[n].op == 'MaxPool'), None)
    kernel = 0 if pooled is None else int(graph.nodes[pooled].attr['ksize'].list.i[1])
    ranking = _RANKINGS[graph.nodes[rank].op]
    values: Dict[str, Any] = {
        'num_candidates_per_keypoint': int(count),
        'candidate_ranking_mode': ranking,
    }
    values['peak_max_pool_kernel_size'] = kernel
    if ranking == 'gaussian_weighted':
        proposal.unknown.append('Standard deviations of keypoints are all taken for 1.')
    if ranking in _NUMBERS:
        divisor = graph.source(graph.inputs(rank)[1])
        number = _scalar(graph, divisor)
        if number is None:  # distances plus a multiple of sizes
            terms = map(graph.source, graph.inputs(divisor))
            products = (_scalar(graph, each) for each in terms if graph.nodes[each].op == 'Mul')
            number = next((each for each in products if each is not None), 0.0)
        values[_NUMBERS[ranking]] = number
    _learn(task, values, f'nodes {top} and {rank}', proposal)


def _read_ending(task: _Task, graph: Graph, chosen: str, proposal: Proposal) -> _Place:
    """Read what is done with the scores of keypoints."""
    last = chosen
    for user in graph.consumers(chosen):
        if graph.nodes[user].op in _SELECTIONS and _scalar(graph, user) == 0.0:
            last = user
    counted = [user for user in graph.consumers(last) if graph.nodes[user].op == 'Greater']
    values: Dict[str, Any] = {
        'clip_out_of_frame_keypoints': last != chosen,
        'rescore_instances': bool(counted),
    }
    if counted:
        values['rescoring_threshold'] = _scalar(graph, counted[0]) or 0.0
    _learn(task, values, f'nodes after {chosen}', proposal)
    place = _find_place(graph, last)
    if place is None:
        raise Refusal(f'its graph does not tell the class with the keypoints of {task.task_name}')
    proposal.learn(f'{_WHERE}.keypoint_class_name', place.class_index + 1, f'nodes after {last}')
    return place


def _find_place(graph: Graph, scores: str) -> Optional[_Place]:
    """Find the columns that scores of keypoints become, and the class that they are kept for."""
    numbers: List[int] = []
    waiting = list(graph.consumers(scores))
    while waiting:
        name = waiting.pop(0)
        if graph.nodes[name].op in _SPREADING:
            waiting += graph.consumers(name)
            for source in map(graph.source, graph.inputs(name)):
                columns = graph.inputs(source)[:1] if graph.nodes[source].op == 'OneHot' else []
                value = graph.constant(columns[0]) if columns else None
                numbers = numbers if value is None else [int(each) for each in value.ravel()]
        elif graph.nodes[name].op == 'Mul':
            masks = (n for n in graph.ancestors([name]) if graph.nodes[n].op == 'Equal')
            for value in (graph.constant(graph.inputs(mask)[1]) for mask in masks):
                if value is not None and value.size == 1:
                    return _Place(int(value.ravel()[0]), numbers)
    return None


def _class_name(class_id: int) -> str:
    return f'class_{class_id}'


def _label_map(num_classes: int, keypoints_of: Mapping[int, Sequence[int]]) -> str:
    """Build a label map whose classes and keypoints are named by their numbers.

    Args:
        num_classes: number of classes.
        keypoints_of: numbers of the keypoints by the id of their class.
    """
    label_map = label_map_pb2.StringIntLabelMap()
    for class_id in range(1, num_classes + 1):
        item = label_map.item.add(id=class_id, name=_class_name(class_id))
        for number in keypoints_of.get(class_id, ()):
            item.keypoints.add(id=number, label=f'keypoint_{number}')
    return text_format.MessageToString(label_map)
