"""A tiny checkpoint with its fp16 vocoder to judge without rendering, and a decision made up of
figures that nobody measured.
"""

import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.eval import execution
from kokoro_ane.eval.comparisons import Natural, VocoderComparison
from kokoro_ane.eval.decision import choose
from kokoro_ane.eval.execution import ClipResult
from kokoro_ane.eval.facts import read_facts
from kokoro_ane.eval.gates import select_gates
from kokoro_ane.eval.judge import judge_results
from kokoro_ane.eval.metrics.catalog import HIGHER, METRICS, SOUND
from kokoro_ane.eval.release import main
from kokoro_ane.eval.report_figures import SHOWN
from kokoro_ane.quantize.methods import METHODS

PERFECT = {name: metric.perfect for name, metric in METRICS.items()}


@pytest.fixture(scope="module")
def release_build(tiny_checkpoint, tiny_build, tmp_path_factory):
    out = tmp_path_factory.mktemp("release") / "build"
    # a slow test judges what it shares
    shutil.copytree(
        tiny_build, out, ignore=shutil.ignore_patterns("*Encoder*", "*fp32*", "release")
    )
    return tiny_checkpoint, out


@pytest.fixture
def placed(release_build, tmp_path):
    return release_build[0], Path(shutil.copytree(release_build[1], tmp_path / "build"))


def unmeasured(patch):
    """Clips are found perfect without being rendered; the list of those that are asked for."""
    clip_ids = []

    def judge_clip(_comparison, _subject, clip):
        clip_ids.append(clip.id)
        return ClipResult(clip.id, clip.voice, 5.0, clip.text, PERFECT, PERFECT)

    patch.setattr(execution, "judge_clip", judge_clip)
    patch.setattr(VocoderComparison, "get_natural", lambda *_: Natural(dict(PERFECT)))
    return clip_ids


@pytest.fixture(scope="session")
def facts():
    return {}


@pytest.fixture
def measured(monkeypatch, facts):
    """Likewise; a package's facts, which take seconds, are read once a session."""

    def remembered(manifest):
        sha256 = manifest.package_sha256
        if sha256 not in facts:
            facts[sha256] = read_facts(manifest)
        return facts[sha256]

    monkeypatch.setattr("kokoro_ane.eval.levels.read_facts", remembered)
    return unmeasured(monkeypatch)


def release(place, *more):
    flags = f"--checkpoint {place[0].folder} --build {place[1]} --no-build --workers 1"
    return main([*flags.split(), *more])


VOICES = ("af_heart", "am_michael", "bf_emma")
SIZES = "fp16 107.1 w8 54.6 p8 54.9 p6 41.2 p4 28.0 w4 31.0 w8a8 55.2 mixed 54.7".split()
SIZES_MB = dict(zip(SIZES[::2], map(float, SIZES[1::2]), strict=True))


def clips(damage, count=24):
    """Figures that lie `damage` limits away from perfect, with some spread; the seed variation half
    a limit away.
    """
    drawn, made = np.random.default_rng(int(damage * 1000)), []
    scales = {
        gate.metric: abs(gate.limit - METRICS[gate.metric].perfect) for gate in select_gates("w8")
    }
    for number in range(count):
        spread = 1 + 0.1 * drawn.standard_normal(2)
        parts = (damage * spread[0], 0.5 * spread[1])
        figures, floor = (
            {name: _moved(name, part * scales.get(name, 0.1)) for name in SOUND} for part in parts
        )
        name, voice = f"judged-{number:02d}", VOICES[number % len(VOICES)]
        made.append(ClipResult(name, voice, 4.0, f"Clip <{number}> & so on.", figures, floor))
    return made


def _moved(name, by):
    metric = METRICS[name]
    return metric.perfect - by if metric.best == HIGHER else metric.perfect + by


def level(name, damage):
    method, judgement = METHODS[name], judge_results(select_gates(name), clips(damage))
    placed = {"engine_low": 0.81, "engine_high": 0.99}
    return judgement.record() | {
        "method": name,
        "title": method.title,
        "unfit_for_engine": method.unfit_for_engine,
        "failed": None,
        "bytes": int(SIZES_MB[name] * 1e6),
        "facts": {
            "int8_macs_share": 0.97 if name == "w8a8" else 0.0,
            "minimum_ios": "iOS17",
            "forecast": {"m4": placed},
        },
        "groups": [],
        "provenance": {"package_sha256": "0" * 64},
    }


def made_up(damages, withheld="demo is not releasable"):
    levels = [level(name, damage) for name, damage in damages.items()]
    choice = choose(levels, withheld)
    floor = clips(0.5)[0].variation
    worst = {f"{name}_worst": value for name, value in floor.items()}
    made = {
        "checkpoint": "demo",
        "checkpoint_sha256": "0" * 64,
        "commit": "0123456789abcdef+",
        "date": "2026-11-22",
        "seed": 0,
        "set": "judged",
        "seed_variation_seed": 1,
        "precision": "declared",
        "features": "PyTorch fp32",
        "libraries": {"torch": "2"},
        "clips": [clip.id for clip in clips(0.0)],
    }
    return asdict(choice) | {
        "may_be_released": choice.may_be_released,
        "chip": "m4",
        "claim": "numeric",
        "spread": {"fp32, another noise seed": floor | worst},
        "provenance": made,
        "levels": levels,
    }


def shortened(record):
    """Two gates, two clips and the metrics with a column: every kind of thing that a decision
    holds, each once or twice.
    """
    for level in (level for level in record["levels"] if not level["failed"]):
        level |= {
            "checks": level["checks"][:2],
            "clips": level["clips"][:2],
            "facts": level["facts"] | {"operations": {"conv": 1}},
        }
        level["summary"] = {name: level["summary"][name] for name in SHOWN}
        level["facts"]["forecast"] = {"m4": level["facts"]["forecast"]["m4"]}
        for clip in level["clips"]:
            clip |= {part: {"pesq": clip[part]["pesq"]} for part in ("figures", "variation")}
    record["provenance"] |= {
        "libraries": {"torch": "2"},
        "clips": record["provenance"]["clips"][:2],
    }
    record["spread"] = {name: {"pesq": spread["pesq"]} for name, spread in record["spread"].items()}
    return record
