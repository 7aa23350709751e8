"""The vocoder as a Stage, in either form: one flexible input, fp32 tail, the promises of its program, its contract.

stage = VocoderStage(checkpoint, form_named("windowed"), (182, 242), "fp16", "iOS17", speech)
(manifest,) = build(stage, Path("build"))
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from core.checkpoint import Checkpoint
from core.contract import FEATURES, HOP_SAMPLES, SAMPLE_RATE_HZ, STYLE, VOCODER_NAME, WAVEFORM
from core.export import TensorType, flexible
from core.figures import Figure
from core.manifest import level_name, package_name
from core.stage import MAIN, Function, Part
from mlprogram import Program
from vocoder.check import check_figures
from vocoder.decoder import Vocoder
from vocoder.facts import VocoderFacts
from vocoder.form import Form
from vocoder.harmonics import SINE_AMPLITUDE, VOICED_ABOVE_HZ, VOICED_NOISE
from vocoder.packing import PackedVocoder, VocoderInputs

if TYPE_CHECKING:
    import coremltools as ct

TAIL_MODULES = ("conv_post", "stft")  # kept in fp32: the ear hears exp and phase errors first


@dataclass(frozen=True, eq=False)
class VocoderStage:
    """See core.stage.Stage. `speech`: what the package is checked with; `vocoder`: the checkpoint's, or one that renders the same."""

    checkpoint: Checkpoint
    form: Form
    buckets: tuple[int, ...]
    precision: str
    target: str
    speech: VocoderInputs
    balanced: Vocoder | None = None  # the checkpoint's vocoder with its channels balanced, ready for int8 inputs

    @cached_property
    def vocoder(self) -> Vocoder:
        """In PyTorch."""
        return self.balanced or Vocoder.of(self.checkpoint)

    @cached_property
    def module(self) -> torch.nn.Module:
        """What is traced."""
        return self.form.module(self.vocoder, self.checkpoint.config.hidden_dim, int8_inputs=self.balanced is not None).eval()

    @property
    def layers(self) -> torch.nn.Module:
        """The module whose convolutions the program has, under the names that recipes use."""
        layers = self.module.vocoder if isinstance(self.module, PackedVocoder) else self.module
        return layers if self.form.output == WAVEFORM else without_tail(layers)

    def parts(self) -> tuple[Part, ...]:
        """See Stage."""
        level = level_name(self.precision, self.form.name)
        return (Part(VOCODER_NAME, package_name(VOCODER_NAME, self.checkpoint.name, self.checkpoint.releasable, level)),)

    def function(self, name: str = MAIN) -> Function:
        """See vocoder_function."""
        config = self.checkpoint.config
        return vocoder_function(self.module, self.form, self.buckets, self.precision, config.hidden_dim, config.style_dim)

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """See Stage."""
        return model

    def facts(self, name: str, program: Program) -> VocoderFacts:
        """See Stage."""
        facts = VocoderFacts.of(program)
        facts.require(self.precision, len(self.buckets))
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Figure]:
        """The waveform of the speech at several lengths."""
        return check_figures(programs[MAIN], self.form.bound(self.vocoder), self.vocoder, self.speech, self.buckets, self.precision)

    def contract(self, part: Part) -> dict[str, Any]:
        """See Stage."""
        config, dtype = self.checkpoint.config, "float16" if self.precision == "fp16" else "float32"
        row = {"shape": [1, config.style_dim, 1, 1], "dtype": dtype, "row": "voice pack [510, 1, 256], phoneme count - 1, columns 0:128"}
        features = self.form.features_contract(config.hidden_dim, self.buckets)
        return {
            "method": self.precision,
            "form": self.form.name,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable and self.precision != "fp32",
            "buckets": self.buckets,
            "hidden_dim": config.hidden_dim,
            "inputs": {FEATURES: features | {"dtype": dtype}, STYLE: row},
            "outputs": {self.form.output: self._output_contract()},
            "source": source_contract(self.vocoder),
        }

    def _output_contract(self) -> dict[str, Any]:
        rate_hz = SAMPLE_RATE_HZ if self.form.output == WAVEFORM else SAMPLE_RATE_HZ // HOP_SAMPLES
        return self.form.bound(self.vocoder).waveform_contract() | {"dtype": self.form.output_dtype(self.precision), "rate_hz": rate_hz}


def without_tail(module: torch.nn.Module) -> torch.nn.Module:
    """The same layers, weights shared, without conv_post: those of a package that leaves the tail to the host."""
    bare = copy.copy(module)
    bare._modules = {name: child for name, child in module._modules.items() if name != TAIL_MODULES[0]}
    generator = bare._modules.get("generator")
    if generator is not None:
        bare._modules["generator"] = without_tail(generator)
    return bare


def vocoder_function(
    module: torch.nn.Module, form: Form, buckets: tuple[int, ...], precision: str, hidden_dim: int, style_dim: int
) -> Function:
    """What is traced: features [1, channels, rows, columns] and style [1, style_dim, 1, 1] to waveform. `module`: form.module(...)."""
    dtype = np.float16 if precision == "fp16" else np.float32
    shapes, style = form.shapes(buckets, hidden_dim), (1, style_dim, 1, 1)
    inputs = (flexible(FEATURES, dtype, shapes), TensorType(STYLE, dtype, shape=style))
    example = (torch.ones(shapes[0]), torch.zeros(style))
    outputs = (TensorType(form.output, np.dtype(form.output_dtype(precision)).type),)
    return Function(module.eval(), example, inputs, outputs, TAIL_MODULES)


def source_contract(vocoder: Vocoder) -> dict[str, Any]:
    """The harmonic source's ten weights and constants: it runs on the host."""
    merge = vocoder.generator.m_source.l_linear
    return {
        "weights": merge.weight.detach().flatten().tolist(),
        "bias": float(merge.bias.detach()),
        "sine_amplitude": SINE_AMPLITUDE,
        "voiced_noise": VOICED_NOISE,
        "voiced_above_hz": VOICED_ABOVE_HZ,
    }
