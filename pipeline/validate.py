"""Compare one utterance step by step: upstream with our PyTorch and with a runtime.

    kokoro-ane validate --phonemes "həlˈO wˈɜɹld" [--voice af_heart:0.7,am_adam:0.3] \\
        [--checkpoint FOLDER] [--runtime mlprogram] [--method w8a8]

`kokoro-ane g2p` turns a text into phonemes, `kokoro-ane vectors` writes the tensors. The waveform
of a layout that predicts statistics is another draw of the same speech, so it is shown and not
judged. Exit 0: every intermediate keeps its limit. Exit 1: one does not; the first bad stage is
named. Exit 2: bad input. A pipe's last line is one JSON object.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from kokoro_ane.core import (
    EXIT_GOOD,
    EXIT_REJECTED,
    REQUIRED,
    CommandOptions,
    build_option,
    checkpoint_option,
    command,
    conclude,
    layout_option,
    option,
    parse,
    seed_argument,
    voice_option,
)


@dataclass(frozen=True)
class ValidateOptions(CommandOptions):
    """One utterance, and what computes it."""

    phonemes: str = option("in the checkpoint's vocabulary, 1 to 510 symbols", REQUIRED)
    voice: str | None = voice_option()
    speed: float = option("0.25 to 4; 2 is twice as fast", 1.0)
    seed: int = option("of the source noise, the same in every run", 0, type=seed_argument)
    checkpoint: str | None = checkpoint_option()
    runtime: str | None = option("also this runtime: mlprogram, onnx ...")
    method: str = option("level of its vocoder (default: its own)", "")
    layout: str = layout_option()
    build: Path = build_option("folder with its files")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(ValidateOptions, "kokoro-ane validate", __doc__, argv)
    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.encoder import check_speed
    from kokoro_ane.pipeline import intermediates
    from kokoro_ane.pipeline.step_comparison import find_first_bad, print_rows
    from kokoro_ane.pipeline.synthesis import Chain, begin
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.runtimes import RUNTIMES, open_runtime, open_voice

    checkpoint = open_checkpoint(options.checkpoint)
    runtime = options.runtime
    name, pack = checkpoint.library.chosen(options.voice)
    inputs = begin(options.phonemes, check_speed(options.speed), options.seed)
    chain = None
    if runtime:
        # Opened first: a missing package is refused before upstream runs for seconds.
        request = PackageRequest(checkpoint, options.build, options.method, options.layout)
        opened = open_runtime(runtime, request)
        voice = open_voice(checkpoint, name, opened.vocoder.predictor)
        chain = Chain(checkpoint.config.vocab, voice, opened.encoder, opened.vocoder)
    reference = intermediates.run_upstream(checkpoint, inputs, pack)
    ours = intermediates.run_torch(checkpoint, inputs, pack, reference)
    tables = {"torch": intermediates.compare_runs(reference, ours, intermediates.EXACT)}
    if runtime and chain:
        # a package computes in fp16 where its precision plan says so
        packages = RUNTIMES[runtime].is_for_packages
        limits = dict(intermediates.PACKAGE if packages else intermediates.FLOAT32)
        # Predicted statistics are not upstream's, and limits of the waveform do not hold.
        if chain.vocoder.predictor:
            del limits["waveform"]
        other = intermediates.run_chain(chain, inputs, reference)
        tables[runtime] = intermediates.compare_runs(reference, other, limits)
    bad = {name: find_first_bad(rows) for name, rows in tables.items()}
    for name, rows in tables.items():
        print_rows(f"{name} against upstream", rows)
        outcome = "every compared intermediate keeps its limit"
        print(f"{name}: {f'the first bad stage is {bad[name]}' if bad[name] else outcome}")
    report = {
        "first_bad": bad,
        "intermediates": {name: [asdict(row) for row in rows] for name, rows in tables.items()},
    }
    missed = sum(stage is not None for stage in bad.values())
    # One missed limit in any table rejects the whole.
    code = EXIT_REJECTED if missed else EXIT_GOOD
    return conclude(options, report, code, f"{missed} of {len(bad)} miss a limit")


if __name__ == "__main__":
    raise SystemExit(main())
