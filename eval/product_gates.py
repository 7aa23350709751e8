"""The limits of a product, executed from text to sound, each with its reason: in units of the fp32
chain's own variation.

    for gate in PRODUCT_GATES: print(gate.name, gate.rule(gate.limit), gate.reason)

No waveform gate can judge a product: a neighbouring style row moves MCD further than another noise
seed, and nobody could call its prosody wrong. So the whole chain is held against the fp32 chain in
units of what the neighbouring row with another noise seed does; how the vocoder rendered what it
was given is held against the fp32 vocoder on the same features, where nothing has moved.
`kokoro-ane controls --stage product` holds the factors against the tuning set: on four sentences of
kokoro-int8 a row has 0.97 of the variation's MCD, p4 has 1.7.
"""

from kokoro_ane.eval.gates import MEAN, WORST, Gate
from kokoro_ane.eval.prosody_gates import DURATIONS, PROSODY_GATES

FAR, TWICE = 1.3, 2.0  # variations
PRODUCT_GATES: tuple[Gate, ...] = (
    Gate(
        "pesq", MEAN, 4.0, "what a vocoder loses on the features it is given, as for a level alone"
    ),
    Gate("pesq", WORST, 3.7, "one bad sentence is heard"),
    Gate(
        "mcd_db",
        MEAN,
        2.0,
        "no further from the fp32 chain than a prosody that nobody could call wrong",
        FAR,
    ),
    Gate(
        "lsd_db",
        MEAN,
        6.0,
        "the same on a linear frequency axis, which does not forgive the high bands",
        FAR,
    ),
    Gate(
        "f0_rmse_cents",
        MEAN,
        40.0,
        "movements of pitch are told apart from 1.5 semitones on ('t Hart 1981): a quarter",
        TWICE,
    ),
    Gate(
        "voicing_error_percent", MEAN, 6.0, "twice what a level of the vocoder may do alone", TWICE
    ),
    Gate("level_db", WORST, 1.0, "1 dB between sentences is just noticeable"),
    Gate("word_errors_added", MEAN, 1.0, "one word in each sentence more is misheard"),
    Gate(
        "words_changed",
        MEAN,
        3.0,
        "words change no more than between neighbours, whose spread is as large again",
        TWICE,
    ),
    Gate(
        "speaker_distance",
        MEAN,
        2.0,
        "the voice must stay: a dropped block has 2.5 %, another person 20 % and more",
        TWICE,
    ),
    Gate("dnsmos_loss", MEAN, 0.1, "predicted quality: listeners differ by 0.1 at best"),
    Gate("distillmos_loss", MEAN, 0.15, "the same by a second model"),
    *(gate for gate in PROSODY_GATES if gate.metric in DURATIONS),
)
