"""The natural variation as data: it gives the figures that measuring gives, and is not used where
it is of something else.
"""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import JUDGED
from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.kokoro_int8.cache import is_available
from kokoro_ane.core.tensor_files import read_npz
from kokoro_ane.eval import gates, natural
from kokoro_ane.eval.comparisons import COMPARISONS, VocoderComparison
from kokoro_ane.eval.execution import judge_clip
from kokoro_ane.eval.gates import COMMON, PLACED, WORST
from kokoro_ane.eval.natural import (
    CACHED,
    FOLDER,
    HEARING,
    INDEX,
    MEASURED,
    STORED,
    Variations,
    compute_variation_key,
    decode_figures,
    describe_origins,
    encode_figures,
    is_same_rendition,
    pack_items,
    unpack_items,
    write_stored,
)
from kokoro_ane.eval.reference import Reference, list_judged_clips
from kokoro_ane.eval.renditions import VocoderSubject
from kokoro_ane.eval.subjects import ENCODER, STAGES, VOCODER
from kokoro_ane.eval.variation import main
from kokoro_ane.vocoder import eager
from tests.commands import ROOT
from tests.demo_voice import DEMO_VOICE, heldout
from tests.signals import phrase_of

PROBE = np.linspace(0, 1, 8, dtype=np.float32)
ITEM = {"probe": PROBE} | encode_figures({"pesq": 4.5, "pesq worst": 0.1 + 0.2})


@pytest.fixture(scope="module")
def demo():
    return open_checkpoint(str(DEMO_VOICE))


@pytest.fixture
def stored(demo, tmp_path):
    """A repository's folder that holds one item of the demo voice."""
    folder = tmp_path / "data"
    write_stored(folder, demo, 0, {(VOCODER, "judged-00"): ITEM})
    return folder


def test_an_item_comes_back_to_the_last_bit(demo, stored):
    variations = Variations.for_checkpoint(demo, 0, stored)
    item, origin = variations.find(VOCODER, "judged-00", PROBE)
    assert origin == STORED
    assert decode_figures(item) == {"pesq": 4.5, "pesq worst": 0.1 + 0.2}
    assert "is stored (vocoder 1 clips)" in variations.line
    assert describe_origins({origin: 46, MEASURED: 2}).endswith("48 clips: 2 measured, 46 stored")
    assert set(variations.provenance) == {"file", "sha256"}
    assert variations.find(VOCODER, "judged-00", 1.01 * PROBE) is None
    assert variations.find(VOCODER, "judged-01", PROBE) is None
    assert variations.find(ENCODER, "judged-00", PROBE) is None


@pytest.mark.parametrize(("seed", "clips"), [(0, {"judged-00", "voices-00"}), (1, {"voices-00"})])
def test_what_is_stored_by_the_same_key_stays(demo, stored, seed, clips):
    write_stored(stored, demo, seed, {(VOCODER, "voices-00"): ITEM})
    items = Variations.for_checkpoint(demo, seed, stored).stored_items
    assert {clip for _, clip in items} == clips


def test_fields_of_all_clips_stand_together():
    items = {
        (kind, f"judged-{number:02d}"): {
            "probe": PROBE[number:],
            "steps": np.arange(number, dtype=np.int16),
        }
        for kind in STAGES
        for number in range(3)
    }
    again = unpack_items(pack_items(items))
    assert again.keys() == items.keys()
    for key, item in items.items():
        for field, array in item.items():
            assert np.array_equal(again[key][field], array)
            assert again[key][field].dtype == array.dtype


def with_key(folder, part):
    """Another value of a part of the stored key."""
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    index["stored"][0]["key"][part] = "another"
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def with_a_bit(folder, _):
    """One bit of the arrays."""
    file = folder / "demo.npz"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        (with_key, "checkpoint", "no stored one is of this checkpoint (there is: demo)"),
        (with_key, "texts", "(demo.npz) has another key for its texts"),
        (with_key, "seed", "(demo.npz) has another key for its seed"),
        (with_key, "metrics", "(demo.npz) has another key for its metrics"),
        (with_key, "listeners", "(demo.npz) has another key for its listeners"),
        (with_a_bit, "", "(demo.npz) is not the one that was written"),
        (lambda folder, _: (folder / INDEX).write_text("{"), "", "index.json is not JSON"),
    ],
)
def test_what_is_of_something_else_is_not_used_and_named(change, part, words, demo, stored):
    change(stored, part)
    variations = Variations.for_checkpoint(demo, 0, stored)
    assert variations.file is None
    assert variations.find(VOCODER, "judged-00", PROBE) is None
    assert words in variations.line


def test_the_key_holds_the_statements_of_the_metrics_and_not_their_place(
    demo, stored, tmp_path, monkeypatch
):
    """Other files, imports, comments and docstrings of files compute the same, a limit does not."""
    before = compute_variation_key(demo, 0)
    for number, path in enumerate(natural.METRICS_CODE.glob("*.py")):
        text = path.read_text(encoding="utf-8").replace("kokoro_ane.eval.metrics", "judge.sound")
        moved = tmp_path / f"moved_{number}.py"
        moved.write_text(f'"""Another one."""\nimport os  # too\n{text}', encoding="utf-8")
    monkeypatch.setattr(natural, "METRICS_CODE", tmp_path)
    assert compute_variation_key(demo, 0) == before
    moved.write_text("ALLOWED_CENTS = 49.0", encoding="utf-8")
    assert compute_variation_key(demo, 0)["metrics"] != before["metrics"]
    assert Variations.for_checkpoint(demo, 0, stored).file is None


def phrase():
    return phrase_of(heldout()[2])


def rendered(reference):
    return reference.get_renders(phrase())


def test_another_render_is_another_clip(demo, monkeypatch):
    """What renders is not in the key: other noise, other weights (each moved by up to half a step
    of 8 bits) and other code (a slope, a tenth off) are found by the levels.
    """
    probe, shaken = rendered(Reference(demo, 0)).probe, Reference(demo, 0)
    torch.manual_seed(0)
    for weight in shaken.vocoder.parameters():
        weight.data += weight.detach().abs().max() / 127 * (torch.rand_like(weight) - 0.5)
    assert not is_same_rendition(rendered(Reference(demo, 1)).probe, probe)
    assert not is_same_rendition(rendered(shaken).probe, probe)
    monkeypatch.setattr(eager, "STAGE_SLOPE", 1.1 * eager.STAGE_SLOPE)
    assert not is_same_rendition(rendered(Reference(demo, 0)).probe, probe)
    assert not is_same_rendition(probe, probe[:-1])


RENDER = """
import sys
from tests.eval.test_natural import DEMO_VOICE, Reference, open_checkpoint, rendered

clip = rendered(Reference(open_checkpoint(str(DEMO_VOICE)), 0))
sys.stdout.buffer.write(clip.reference.tobytes() + clip.probe.tobytes())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kernels", "instructions"), [("default", "SSE41"), ("avx2", "AVX2")])
def test_another_processor_renders_the_same_clip(kernels, instructions, demo, monkeypatch):
    """PyTorch and oneDNN kept to an older processor's instructions: other samples, the same
    levels.
    """
    # oneDNN reads its variable when it is first used
    here = rendered(Reference(demo, 0))
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", kernels)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", instructions)
    there = subprocess.check_output([sys.executable, "-c", RENDER], cwd=ROOT)
    samples, probe = here.reference.tobytes(), here.probe
    assert there[: len(samples)] != samples
    assert is_same_rendition(np.frombuffer(there[len(samples) :], probe.dtype), probe)


def test_other_checkpoints_keep_theirs_in_the_user_s_cache(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path / "cache"))
    variations = Variations.for_checkpoint(demo, 0, tmp_path / "nothing")
    variations.keep(VOCODER, "judged-00", ITEM)
    variations.keep(VOCODER, "tuning-00", ITEM)
    item, origin = Variations.for_checkpoint(demo, 0, tmp_path / "nothing").find(
        VOCODER, "judged-00", PROBE
    )
    assert origin == CACHED
    assert decode_figures(item) == decode_figures(ITEM)
    # the key holds the texts of the judged sets only
    assert variations.find(VOCODER, "tuning-00", PROBE) is None
    (path,) = (tmp_path / "cache").rglob("judged-00.npz")
    path.write_bytes(path.read_bytes()[:-30])
    assert variations.find(VOCODER, "judged-00", PROBE) is None
    assert "cached variation is not used" in capsys.readouterr().err


def noisy(reference, inputs):
    return reference.render_clock(reference.with_noise(inputs, 7))


@pytest.mark.slow
def test_stored_gives_the_figures_that_measuring_gives(demo, tmp_path):
    """A clip measured, kept, and read again: every figure and every variation to the last digit."""
    clip = replace(phrase(), id="judged-00")
    results = []
    for _ in range(2):
        reference = Reference(demo, 0, None, Variations(folder=tmp_path))
        subject = VocoderSubject(reference, partial(noisy, reference))
        results.append(judge_clip(VocoderComparison(reference), subject, clip))
    made, read = results
    assert (made.origin, read.origin) == (MEASURED, CACHED)
    assert read.figures == made.figures
    assert read.variation == made.variation


def test_all_other_seeds_are_asked_where_a_place_is_near_its_limit(demo, tmp_path, monkeypatch):
    clip = replace(phrase(), id="judged-00")
    worst = {gate.metric for gate in COMMON if gate.statistic == WORST} & set(PLACED)
    results = []
    for near, seeded in ((np.inf, False), (0.0, True)):
        # the second run reads what the first one kept
        monkeypatch.setattr(gates, "NEAR", near)
        variations = Variations(folder=tmp_path)
        reference = Reference(demo, 0, None, variations)
        subject = VocoderSubject(reference, partial(noisy, reference))
        result = judge_clip(VocoderComparison(reference), subject, clip)
        results.append(result.figures)
        assert reference.get_renders(clip).is_seeded == seeded
        assert ((VOCODER, clip.id) in variations.read_measured_items()) == seeded
        assert set(PLACED) <= result.figures.keys()
        assert result.variation.keys().isdisjoint(PLACED) != seeded
    by_one, by_all = results
    assert len(worst) == 5
    assert all(by_one[name] >= by_all[name] for name in worst)
    assert any(by_one[name] > by_all[name] for name in worst)
    assert {name: by_one[name] for name in by_one.keys() - set(PLACED)} == {
        name: by_all[name] for name in by_all.keys() - set(PLACED)
    }


def test_what_the_repository_holds_is_of_this_code():
    """Else every verdict takes three times as long: `kokoro-ane variation --write` measures it."""
    index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    code = compute_variation_key(open_checkpoint(str(DEMO_VOICE)), 0)
    for entry in index["stored"]:
        assert sha256_of(FOLDER / entry["file"]) == entry["sha256"]
        for part in ("texts", "seed", "metrics", "listeners"):
            assert entry["key"][part] == code[part], part


@pytest.mark.slow
@pytest.mark.skipif(not is_available(), reason="kokoro-int8 is not installed")
def test_two_clips_of_kokoro_int8_are_measured_again():
    """By each stage that is stored. Another processor may move the last digits, and where the
    recognizer is torn between two words, a word.
    """
    checkpoint = open_checkpoint("kokoro-int8")
    variations = Variations.for_checkpoint(checkpoint, 0)
    if variations.file is None:
        pytest.skip(variations.line)
    stored = unpack_items(read_npz(variations.file))
    fresh, read = Reference(checkpoint, 0), Reference(checkpoint, 0, None, variations)
    clips = [clip for clip in list_judged_clips(checkpoint, JUDGED) if (VOCODER, clip.id) in stored]
    for clip in sorted(clips, key=lambda clip: clip.frames)[:2]:
        for stage in (stage for stage in STAGES if (stage, clip.id) in stored):
            natural = COMPARISONS[stage](read).get_natural(clip)
            measured = COMPARISONS[stage](fresh, thorough=True).get_natural(clip)
            assert natural.origin == STORED
            assert natural.figures.keys() == measured.figures.keys()
            for name, value in measured.figures.items():
                tolerance = 1.0 if "word" in name else 1e-3
                assert natural.figures[name] == pytest.approx(value, abs=tolerance), name
        heard = read.get_renders(clip).sentence.cached
        assert heard is not None, HEARING
        assert heard.dnsmos == pytest.approx(
            fresh.get_renders(clip).baseline.heard.dnsmos, abs=1e-3
        )


def test_what_is_stored_of_other_frames_is_measured_again(demo, tmp_path):
    """Another processor's last bits decide which frames are loud enough to count."""
    variations = Variations(folder=tmp_path)
    clip = replace(phrase(), id="judged-00")
    renders = Reference(demo, 0, None, variations).get_renders(clip)
    steps = -(-int(renders.sentence.active.sum()) // 4) * 24
    allowed = renders.baseline.allowance.plain()
    for size, found in ((steps, True), (steps - 24, False)):
        item = {"probe": renders.probe, **allowed, "cepstrum": np.zeros(size, np.int8)}
        variations.keep(VOCODER, clip.id, item)
        assert (renders.find_variation() is not None) == found


def test_a_reference_is_heard_once_alone_and_beside_its_seeds(demo):
    renders = rendered(Reference(demo, 0))
    assert renders.baseline.other_seeds
    assert renders.baseline.heard is renders.sentence.heard


def test_the_command_says_what_is_stored(capsys):
    assert main(["--checkpoint", str(DEMO_VOICE)]) == 3
    line, record = capsys.readouterr().out.splitlines()
    assert "no stored one is of this checkpoint" in line
    assert json.loads(record)["stored"] is None
    assert main(["--checkpoint", str(DEMO_VOICE), "--stages", "vocoder,sound"]) == 2
    assert "--stages sound: there are" in capsys.readouterr().err
    assert main(["--checkpoint", str(DEMO_VOICE), "--write"]) == 2
    assert "--write is of kokoro-82m, kokoro-int8, kokoro-shaken" in capsys.readouterr().err
