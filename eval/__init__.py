"""Judgement: speech metrics on the executed package against the fp32 PyTorch render."""

from typing import TYPE_CHECKING

from core.lazy import exports

if TYPE_CHECKING:
    from eval.corpus import Truth
    from eval.judge import decided, judge_clip
    from eval.metrics.registry import METRICS, measure

__all__ = ["METRICS", "Truth", "decided", "judge_clip", "measure"]
__getattr__ = exports(
    __name__,
    {
        "METRICS": "eval.metrics.registry",
        "Truth": "eval.corpus",
        "decided": "eval.judge",
        "judge_clip": "eval.judge",
        "measure": "eval.metrics.registry",
    },
)
