"""Config rules that several tasks share."""

from __future__ import annotations

from typing import Iterator

from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from protos import cluster_pb2


def _quantized(config: PipelineConfig) -> Iterator[Problem]:
    """Check for fields that exclude quantization-aware training."""
    if not config.graph_rewriter.HasField('quantization'):
        return
    train_config = config.train_config
    where = 'graph_rewriter.quantization'
    if train_config.use_bfloat16:
        yield Problem(where, 'it excludes train_config.use_bfloat16; expected false.')
    cluster = train_config.cluster
    if cluster.mode == cluster_pb2.ClusterConfig.CLONES and cluster.num_clones != 1:
        yield Problem(
            where,
            'the copies of the network of train_config.cluster.mode: CLONES would have one range '
            'between them; expected MIRRORED, whose replicas have ranges of their own.',
        )


def _quantization_warnings(config: PipelineConfig) -> Iterator[str]:
    if not config.graph_rewriter.HasField('quantization'):
        return
    asked = config.graph_rewriter.quantization
    if asked.symmetric:
        yield (
            'graph_rewriter.quantization.symmetric: honored here; the published system read it '
            'and trained with ranges that are not symmetric.'
        )
    steps = config.train_config.num_steps
    if 0 < steps < asked.delay:
        yield (
            f'graph_rewriter.quantization.delay: {asked.delay} is more than '
            f'train_config.num_steps, {steps}: training will end before it quantizes.'
        )
    elif asked.delay > 1:
        yield (
            f'graph_rewriter.quantization.delay: training does not quantize before step '
            f'{asked.delay}, evaluations always do: metrics of the steps before are lower than '
            'those of the network as it is trained.'
        )


# Quantization-aware training, for the tasks whose networks are quantized.
QUANTIZED = ConfigRules(problems=(_quantized,), warnings=(_quantization_warnings,))
