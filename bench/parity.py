"""The vocoder against upstream, and padded against exact, at full size with random weights: the figures of docs/vocoder.md.

    python -m bench.parity [--frames 7,40,133,400] [--fills 40,44,50,60,80,133,200,440]

Exit 0 when every limit holds, 1 when one is missed. The last line of stdout is one JSON object.
"""

import json

from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, Parser, run_cli

LIMIT_DB = 90.0
FILL_FRAMES = 40


def numbers(text: str) -> list[int]:
    """'7,40' -> [7, 40]."""
    return [int(part) for part in text.split(",")]


def upstream_rows(frames: list[int]) -> list[dict]:
    """One row a length: SNR in float64, and both float32 renders against upstream's float64."""
    import torch

    from bench.comparison import both_renders, upstream_decoder
    from bench.random_checkpoint import kokoro_config
    from kokoro_ane.core.checks import snr_db
    from kokoro_ane.core.config import KokoroConfig
    from kokoro_ane.vocoder.decoder import Vocoder

    config = KokoroConfig.from_dict(kokoro_config(), "bench")
    upstream, vocoder = upstream_decoder(config, seed=0), Vocoder(config).eval()
    vocoder.load_state_dict(upstream.state_dict())
    rows = []
    for length in frames:  # weights are float32 values, so going to float64 and back loses nothing
        exact, ours = both_renders(upstream, vocoder, config.hidden_dim, length, torch.float64)
        theirs_32, ours_32 = both_renders(upstream, vocoder, config.hidden_dim, length, torch.float32)
        rows.append({"frames": length, "float64_db": snr_db(exact, ours), "ours_float32_db": snr_db(exact, ours_32),
                     "upstream_float32_db": snr_db(exact, theirs_32)})  # fmt: skip
    return rows


def padding_rows(buckets: list[int]) -> list[dict]:
    """One row a bucket: SNR of the padded render against the exact one, fp32 PyTorch."""
    from bench.comparison import padded_render, random_inputs
    from bench.random_checkpoint import kokoro_config, random_vocoder
    from kokoro_ane.core.checks import snr_db
    from kokoro_ane.core.config import KokoroConfig
    from kokoro_ane.vocoder.render import render_reference

    config = KokoroConfig.from_dict(kokoro_config(), "bench")
    vocoder = random_vocoder(config, seed=0)
    x = random_inputs(vocoder, FILL_FRAMES, config.hidden_dim)
    reference = render_reference(vocoder, x)
    return [{"bucket": b, "fill": FILL_FRAMES / b, "snr_db": snr_db(reference, padded_render(vocoder, x, b))} for b in buckets]


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = Parser("bench.parity", __doc__)
    parser.add_argument("--frames", type=numbers, default=[7, 40, 133, 400])
    parser.add_argument("--fills", type=numbers, default=[40, 44, 50, 60, 80, 133, 200, 440])
    arguments = parser.parse_args(argv)
    parity, padding = upstream_rows(arguments.frames), padding_rows(arguments.fills)
    print("frames   float64   float32: ours / upstream, against upstream in float64")
    for row in parity:
        print(f"{row['frames']:6d}  {row['float64_db']:6.1f} dB  {row['ours_float32_db']:6.1f} / {row['upstream_float32_db']:.1f} dB")
    print(f"{FILL_FRAMES} frames in a bucket of   fill   padded against exact, fp32")
    for row in padding:
        print(f"{row['bucket']:22d}  {row['fill']:5.0%}  {row['snr_db']:6.1f} dB")
    good = all(row["float64_db"] >= LIMIT_DB and row["ours_float32_db"] >= row["upstream_float32_db"] for row in parity)
    good = good and all(row["snr_db"] >= LIMIT_DB for row in padding)
    print(json.dumps({"parity": parity, "padding": padding, "limit_db": LIMIT_DB, "good": good}))
    return EXIT_GOOD if good else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
