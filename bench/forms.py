"""The forms of the vocoder side by side, executed here: SNR against PyTorch, processor time, and how exact the rewriting is.

    python -m bench.forms [--checkpoint demo] [--frames 400] [--repeats 3]

Without --checkpoint full size with random weights. Renders take turns. A Markdown table, then one JSON object; exit 2 for bad input.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.markdown import print_markdown
from core.contract import LITERAL, WHOLE_FORMS
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    from vocoder.decoder import Vocoder
    from vocoder.form import Form
    from vocoder.packing import VocoderInputs


def subject(checkpoint: str | None, frames: int) -> "tuple[Vocoder, VocoderInputs]":
    """A vocoder and what it is given: a checkpoint and a held-out sentence, or random weights and random features."""
    from bench.comparison import random_inputs
    from bench.random_checkpoint import kokoro_config, random_vocoder
    from core.checkpoint import open_checkpoint
    from core.config import KokoroConfig
    from core.corpus import heldout
    from quantize.features import excerpt, text_encoder, vocoder_inputs
    from vocoder.decoder import Vocoder

    if checkpoint is None:
        config = KokoroConfig.from_dict(kokoro_config(), "bench.forms")
        vocoder = random_vocoder(config, seed=0)
        return vocoder, random_inputs(vocoder, frames, config.hidden_dim)
    opened = open_checkpoint(checkpoint)
    vocoder = Vocoder.of(opened)
    inputs = vocoder_inputs(opened, vocoder, text_encoder(opened), heldout()[0], seed=0)
    return vocoder, excerpt(inputs, start=0, frames=min(frames, inputs.frames))


def exactness_db(vocoder: "Vocoder", inputs: "VocoderInputs", form: "Form", bucket: int) -> float:
    """SNR of the rewritten network in PyTorch fp32 against the literal one."""
    import torch

    from core.figures import snr_db
    from vocoder.package import render_reference

    module = form.module(vocoder, inputs.asr.shape[1]).eval()
    with torch.no_grad():
        waveform = module(form.pack(inputs, bucket, half=False), inputs.style[:, :, None, None].float())
    return snr_db(render_reference(vocoder, inputs), form.join(waveform, inputs.frames, bucket).numpy())


def compare(vocoder: "Vocoder", inputs: "VocoderInputs", repeats: int, folder: Path) -> list[dict[str, Any]]:
    """Figures of every form, its packages built into `folder`."""
    from core.build import converted
    from core.export import save_package
    from core.figures import snr_db
    from mlprogram import Program
    from vocoder.forms import form_named
    from vocoder.package import render_reference, run_program
    from vocoder.stage import vocoder_function
    from vocoder.windowed.geometry import raised

    calls, rows, reference = {}, [], render_reference(vocoder, inputs)
    for name in WHOLE_FORMS:
        form, bucket = form_named(name), inputs.frames if name == LITERAL else raised(inputs.frames)
        sizes = (inputs.asr.shape[1], inputs.style.shape[1])
        function = vocoder_function(form.module(vocoder, sizes[0]), form, (bucket,), "fp16", *sizes)
        save_package(converted(function, "fp16", "iOS17"), folder / f"{name}.mlpackage")
        calls[name] = (Program(folder / f"{name}.mlpackage"), form, inputs, bucket)
        exact = None if name == LITERAL else exactness_db(vocoder, inputs, form, bucket)
        value = snr_db(reference, run_program(*calls[name]))
        rows.append({"form": name, "bucket": bucket, "exactness_db": exact, "executed_db": value, "processor_s": []})
    for _ in range(repeats):
        for row in rows:
            start = time.process_time()
            run_program(*calls[row["form"]])
            row["processor_s"].append(time.process_time() - start)
    return rows


def print_table(rows: list[dict[str, Any]], frames: int) -> None:
    """One line a form."""
    base = min(rows[0]["processor_s"])
    lines = []
    for row in rows:
        exact = "" if row["exactness_db"] is None else f"{row['exactness_db']:.1f}"
        least = min(row["processor_s"])
        lines.append((row["form"], str(row["bucket"]), exact, f"{row['executed_db']:.1f}", f"{least:.2f}", f"{least / base:.2f}"))
    heads = (f"{frames} frames", "bucket", "rewriting, fp32 dB", "executed fp16 package, dB", "processor s, least", "of the literal")
    print_markdown(heads, lines)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.forms", description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", help="a folder or 'demo' instead of full-size random weights")
    parser.add_argument("--frames", type=int, default=400, help="40 a second")
    parser.add_argument("--repeats", type=int, default=3, help="timed renders of each form")
    arguments = parser.parse_args(argv)
    if not 18 <= arguments.frames <= 1200 or arguments.repeats < 1:
        raise InputError(f"--frames {arguments.frames}, --repeats {arguments.repeats}: 18 to 1200 frames and 1 repeat or more are needed")
    vocoder, inputs = subject(arguments.checkpoint, arguments.frames)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(vocoder, inputs, arguments.repeats, Path(folder))
    print_table(rows, inputs.frames)
    print(json.dumps(rows))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
