"""The chain from text to samples, and what ships it: steps, conductor, runtimes, synthesize, validate, vectors, bundle."""

from typing import TYPE_CHECKING

from core.lazy import exports

if TYPE_CHECKING:
    from pipeline.conductor import Pipeline, SpeechOptions
    from pipeline.runtimes import RUNTIMES, Request, open_runtime
    from pipeline.speech import speak
    from pipeline.steps import STEPS, Chain

__all__ = ["Chain", "Pipeline", "RUNTIMES", "Request", "STEPS", "SpeechOptions", "open_runtime", "speak"]
__getattr__ = exports(
    __name__,
    {
        "Chain": "pipeline.steps",
        "Pipeline": "pipeline.conductor",
        "RUNTIMES": "pipeline.runtimes",
        "Request": "pipeline.runtimes",
        "STEPS": "pipeline.steps",
        "SpeechOptions": "pipeline.conductor",
        "open_runtime": "pipeline.runtimes",
        "speak": "pipeline.speech",
    },
)
