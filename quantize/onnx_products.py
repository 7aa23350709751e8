"""The vocoder's .onnx graph with int8 products by the recipe of `w8a8`: balanced channels, scales that follow time.

    module = integer_vocoder(METHODS["w8a8"], checkpoint)        # vocoder.portable's, to be exported

The same preparation as the package's (quantize/build.py), with ranges of the PyTorch vocoder. Convolutions that a method keeps in
float stay so; so do transposed ones, which ONNX has no integer operation for.
"""

from collections.abc import Mapping

from core.checkpoint import Checkpoint
from core.contract import LITERAL
from core.layers import Conv
from core.modules import replace_module
from quantize.activations import calibration_inputs
from quantize.integer_conv import IntegerConv
from quantize.measure import Ready
from quantize.methods import Method
from vocoder.decoder import Vocoder
from vocoder.eager_places import places
from vocoder.portable import PortableVocoder
from vocoder.prepared import FACTORS, Envelope


def integer_vocoder(method: Method, checkpoint: Checkpoint) -> PortableVocoder:
    """What is exported. Raises InputError for a method without int8 inputs."""
    plain, settings = Vocoder.of(checkpoint), method.in_form(LITERAL).int8_activations()
    ready = Ready.of(plain, list(calibration_inputs(checkpoint, plain, settings.clips)), settings)
    chosen = frozenset(place.path for place in places(plain).values() if settings.takes(place.path))
    return with_integers(ready.vocoder(plain, chosen), ready.ranges, chosen, checkpoint.config.hidden_dim)


def with_integers(prepared: Vocoder, ranges: Mapping[str, float], chosen: frozenset[str], hidden_dim: int) -> PortableVocoder:
    """The prepared vocoder's graph, the chosen convolutions on integers. `ranges`: of what each reads, prepared."""
    portable = PortableVocoder(prepared, hidden_dim)
    for name, place in places(prepared).items():
        if place.path in chosen:
            conv = prepared.get_submodule(place.path)
            assert isinstance(conv, Conv), place.path
            replace_module(portable.eager, name, IntegerConv(conv, ranges[place.path], place))
    return portable


def long_convolutions(vocoder: PortableVocoder) -> list[str]:
    """Those of the last stage, whose inputs leave the cache (quantize/onnx_blocks.py), by path."""
    whole = [(name, module.envelope) for name, module in vocoder.named_modules() if isinstance(module, IntegerConv)]
    return [name for name, envelope in whole if isinstance(envelope, Envelope) and envelope.columns == max(FACTORS)]
