"""What Xcode shows of a package: its description, author, license and version, what each input and
output is, and user-defined keys that say what it was made from.

    write_notes(Path("build/KokoroVocoder-fp16.mlpackage"), VOCODER_NAME, contract)

All of it follows from the manifest's contract and the commit: two builds write the same bytes.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kokoro_ane.core.checkpoint import HUB_NAME, KOKORO_INT8
from kokoro_ane.core.contract import ENCODER_NAME, G2P_NAME, SAMPLE_RATE_HZ, VOCODER_NAME
from kokoro_ane.core.export import find_model_file, quiet_coremltools
from kokoro_ane.core.revision import commit

STAGES = MappingProxyType(
    {
        G2P_NAME: "English words that no list has, letters to phonemes",
        ENCODER_NAME: "Kokoro's encoder: phonemes and a voice to durations, pitch and energy",
        VOCODER_NAME: "Kokoro's vocoder: what the encoder gives to sound",
    }
)
# of a tensor by its name; the contract adds type, shape, unit and packing
MEANINGS = MappingProxyType(
    {
        "ids": "a list's number and the letters of each word",
        "logits": "scores of each sound",
        "input_ids": "phonemes as numbers of Kokoro's vocabulary",
        "style": "a row of the voice",
        "statistics": "what the voice adds to predicted means and log variances of norms",
        "speed": "2 is twice as fast",
        "durations": "of each phoneme",
        "hidden": "of each phoneme, for pitch and energy",
        "text": "of each phoneme, for the vocoder",
        "frames": "the hidden columns of each frame, 40 a second",
        "f0_hz": "pitch",
        "energy": "loudness of the voice",
        "features": "what the vocoder reads, packed row after row",
        "entering": "what the generator's second stage reads",
        "affine": "gains and shifts of norms, with this sentence's statistics",
        "style_affine": "gains and shifts of norms, the style's alone",
        "waveform": "samples, mono",
    }
)
LONGEST_NOTE = 300  # characters of one entry; a longer one is in the manifest beside the package


def write_notes(package: Path, stage: str, contract: Mapping[str, Any]) -> None:
    """Write the description into a package of one function or several. contract: the manifest's
    fields that the stage knows.
    """
    with quiet_coremltools():
        from coremltools.proto import Model_pb2
    path = find_model_file(package)
    spec = Model_pb2.Model.FromString(path.read_bytes())
    name = contract["checkpoint"]["name"]
    version = import_module("kokoro_ane").__version__
    method = contract["method"]
    layout = contract.get("layout", "")
    metadata = spec.description.metadata
    level = f"level {method}" + (f", {layout} layout" if layout else "")
    # an encoder for iOS 17 is two packages, whose names begin as its own
    what = next(words for begin, words in STAGES.items() if stage.startswith(begin))
    metadata.shortDescription = f"{what}; {level}. Made by kokoro-ane {version}."
    is_kokoro = stage == G2P_NAME or name in (HUB_NAME, KOKORO_INT8)
    metadata.author = "hexgrad (Kokoro-82M), kokoro-ane" if is_kokoro else f"checkpoint {name}"
    metadata.license = "Apache-2.0" if is_kokoro else f"that of checkpoint {name}"
    metadata.versionString = version
    keys = {
        "checkpoint": name,
        "checkpoint_sha256": contract["checkpoint"]["sha256"],
        "level": method,
        "layout": layout,
        "sample_rate_hz": "" if stage == G2P_NAME else str(SAMPLE_RATE_HZ),
        "commit": commit(),
    }
    metadata.userDefined.update({key: value for key, value in keys.items() if value})
    for function in spec.description.functions or [spec.description]:
        for features, tensors in (
            (function.input, contract["inputs"]),
            (function.output, contract["outputs"]),
        ):
            # several functions have a contract each; a package of one may be told by its stage's
            of_function = tensors.get(getattr(function, "name", ""), tensors)
            if not all("dtype" in one for one in of_function.values()):
                (of_function,) = of_function.values()
            for feature in features:
                feature.shortDescription = note_of(feature.name, of_function[feature.name])
    path.write_bytes(spec.SerializeToString(deterministic=True))


def note_of(name: str, contract: Mapping[str, Any]) -> str:
    """What a tensor is: its meaning, type and shape, and whatever else its contract says."""
    shape = ", ".join(map(str, contract["shape"]))
    head = f"{MEANINGS[name]}: " if name in MEANINGS else ""
    parts = [f"{head}{contract['dtype']} [{shape}]"]
    for key, value in contract.items():
        text = ", ".join(_words(value))
        if key not in ("dtype", "shape") and len(text) <= LONGEST_NOTE:
            parts.append(f"{key.replace('_', ' ')}: {text}")
    return "; ".join(parts)


def _words(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key} {one}" for key, one in value.items()]
    return [*map(str, value)] if isinstance(value, list | tuple) else [str(value)]
