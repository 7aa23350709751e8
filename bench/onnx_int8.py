"""The vocoder on ONNX Runtime's integers: what its own quantizer makes (int8 weights a channel, int8 inputs a tensor), and our `w8a8`.

    OMP_NUM_THREADS=1 python -m bench.onnx_int8 --checkpoint kokoro-int8 [--build build] [--ranges 4] [--clips 3]

Needs the vocoder's .onnx files (`python -m pipeline.build vocoder --runtime onnx`, `python -m quantize.apply --method w8a8 --runtime
onnx`). Rows: ours; ranges by the largest value and by a percentile, all convolutions or those of the generator alone. Figures of tuning
sentences that gave no ranges, beside another seed's; time beside float32's, one thread, process time. Nothing is written but into a
temporary folder.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.frontier import FIGURES, figures, sentences
from core.arguments import checkpoint_argument
from core.contract import FEATURES, STYLE, WAVEFORM
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    import numpy as np

    from vocoder.packing import VocoderInputs

TAIL = "conv_post"
ROWS = (("MinMax", ""), ("Percentile", ""), ("Percentile", "generator"))  # calibration, and what a convolution's weight must be called
PERCENTILE = 99.99
RANGE_FRAMES = 160  # of a sentence that ranges come from: the collector keeps every value of every convolution's input


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.onnx_int8", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the .onnx file (default: %(default)s)")
    parser.add_argument("--ranges", type=int, default=4, help="sentences that ranges come from, 1 to 16 (default: %(default)s)")
    parser.add_argument("--clips", type=int, default=3, help="sentences to measure on, 1 to 7 (default: %(default)s)")
    return parser.parse_args(argv)


def given(clip: "VocoderInputs") -> "dict[str, np.ndarray]":
    """The file's inputs for one sentence at its own length."""
    from vocoder.inputs import packed

    return {FEATURES: packed(clip, clip.frames), STYLE: clip.style.numpy()[:, :, None, None]}


def quantized(model: Path, out: Path, ranges: "list[dict[str, np.ndarray]]", how: str, part: str) -> int:
    """Write `out` by onnxruntime.quantization; how many convolutions it has in int8."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        """The sentences, one after the other."""

        def __init__(self) -> None:
            self.rest: Iterator[Any] = iter(ranges)

        def get_next(self) -> Any:
            """The next, None behind the last."""
            return next(self.rest, None)

    nodes = [node for node in onnx.load(model).graph.node if node.op_type == "Conv"]
    chosen = [node.name for node in nodes if TAIL not in node.input[1] and part in node.input[1]]
    kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True, "quant_format": QuantFormat.QDQ}
    options = {"ActivationSymmetric": True, "CalibPercentile": PERCENTILE}
    quantize_static(model, out, Reader(), nodes_to_quantize=chosen, calibrate_method=CalibrationMethod[how], extra_options=options, **kinds)
    return len(chosen)


def opened(path: Path) -> Any:
    """A session in one thread, with ONNX Runtime's int8 kernels where the file asks for them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def rendered(session: Any, clips: "list[dict[str, np.ndarray]]") -> "tuple[list[np.ndarray], float]":
    """Waveforms [600F], and the processor's seconds for all of them."""
    started = time.process_time()
    found = [session.run([WAVEFORM], clip)[0].reshape(-1).astype("float64") for clip in clips]
    return found, time.process_time() - started


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if not (1 <= arguments.ranges <= 16 and 1 <= arguments.clips <= 7):
        raise InputError(f"--ranges {arguments.ranges} --clips {arguments.clips}: 1 to 16 and 1 to 7")
    from bench.markdown import print_markdown
    from core.checkpoint import open_checkpoint
    from core.manifest import Manifest
    from core.onnx_file import OnnxProgram
    from eval.metrics.trial import Trial
    from pipeline.runtimes import Request, files_of
    from quantize.features import excerpt
    from vocoder.decoder import Vocoder

    checkpoint = open_checkpoint(arguments.checkpoint)
    model, ours = (Manifest.load(files_of("onnx", Request(checkpoint, arguments.build, level))[1]) for level in ("fp32", "w8a8"))
    calibration, held = sentences(checkpoint, Vocoder.of(checkpoint), arguments.clips)
    longest = sorted(calibration, key=lambda clip: -clip.frames)[: arguments.ranges]
    frames = min(RANGE_FRAMES, longest[-1].frames)  # the collector stacks them: of one length
    ranges = [given(excerpt(clip, 0, frames)) for clip in longest]
    exact = opened(model.package_path)
    truth = [rendered(exact, [given(drawn) for drawn in clip])[0] for clip in held]
    clips = [given(clip[0]) for clip in held]
    float_s = rendered(exact, clips)[1]
    table = [("another seed", "", *figures([Trial(known[0], known[1], known[1:]) for known in truth]), "")]

    def measure(what: str, count: int, session: Any) -> None:
        rendered(session, clips[:1])  # its memory is had then
        renders, seconds = rendered(session, clips)
        trials = [Trial(known[0], test, known[1:]) for known, test in zip(truth, renders, strict=True)]
        table.append((what, str(count), *figures(trials), f"{seconds / float_s:.2f}"))

    measure("ours, w8a8", ours.compression["int8_inputs"], OnnxProgram(ours.package_path, (WAVEFORM,)).session)
    for how, part in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            count = quantized(model.package_path, Path(folder) / "int8.onnx", ranges, how, part)
            measure(f"{how}{f', {part}' if part else ''}", count, opened(Path(folder) / "int8.onnx"))
    print_markdown(("ranges", "convolutions in int8", *FIGURES.values(), "time, float32's 1"), table)
    print(json.dumps({"rows": [row[0] for row in table], "frames": [clip[0].frames for clip in held]}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.onnx_int8 import main  # one module identity, however it was started

    raise SystemExit(main())
