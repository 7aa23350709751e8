"""Senses that part of speech cannot tell apart: bass the fish, a lead pipe, a tear in a sleeve. Cue words near the word decide.

    from g2p.tagger.senses import sense
    sense("bass", ("We", "caught", "a", "bass", "in", "the", "lake"), 3)     # "DEFAULT", in misaki's list the fish

A cue is a word within REACH words, or with a place (`-1:deep`: the word before; `+1:player`: the word after), which counts double.
The key with the most points wins, the first one where none has more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from g2p.tagger.words import word_set

REACH = 12
PLACES = (-3, -2, -1, 1, 2)


@dataclass(frozen=True)
class Senses:
    """Keys in order with their cues, and the tags for which they are asked (`*`: all)."""

    tags: frozenset[str]
    cues: Mapping[str, frozenset[str]]


def _of(tags: str, **cues: str) -> Senses:
    return Senses(word_set(tags), {key: word_set(text) for key, text in cues.items()})


CRYING = """eye eyes cheek cheeks face wiped wipe wiping cry cried crying wept weep shed sad sadness joy single rolled fell salty
grief"""
TORN = """fabric cloth sleeve shirt coat jacket trousers jeans dress skirt curtain sail tent net screen canvas seam hole holes
patch mend mended repair repaired sewed sewn stitch stitched ligament muscle tendon cartilage retina meniscus cuff knee
shoulder page paper wallpaper seat leather bag fence -2:wear surgery upholstery pocket stocking stockings rotator"""
ARROWS = """arrow arrows archer archery quiver violin cello violinist cellist fiddle string strings ribbon ribbons hair tied tie
knot shoelace shoelaces gift box wrapped -1:rain hunter hunt hunting target draw drew longbow shoot +1:tie neck silk
satin"""
BOWING = """-2:take -2:took -2:takes -2:taking -2:taken -3:take -3:took -1:deep -1:low -1:slight -1:polite -1:courtly -1:formal
-1:stiff -1:little -1:final applause audience curtain stage actors emperor queen king ship ships boat boats deck hull
stern vessel waves wave yacht ferry canoe anchor sailor sailors captain harbor torpedo iceberg port starboard -1:ship's
-1:port -1:starboard crew sailed sea"""
CHOPPED = """wood chop chopped chopping tree trees firemen firefighters fireman lumberjacks lumberjack loggers battle swords sword
shields spears spear knives hammers saws shovels hatchets sharp sharpen sharpened stone bronze iron steel door handle
handles wielding wielded swinging swung throwing weapons tools vikings warriors pickaxes ice"""
CHARTED = """chart graph label labeled plot plotted vertical horizontal coordinate x y rotation rotates three two scale symmetry
earth planet"""

PLUMBING = """pipe pipes paint paints painted poison poisoning poisoned metal metals bullet bullets weight weights heavy heavier gold
copper zinc tin silver iron mercury arsenic cadmium solder pencil pencils battery batteries gas gasoline petrol roof
roofs stained toxic toxicity acid mine mines mined ore melt melted melts molten shot crystal pewter aluminum steel brass
radiation x-ray apron plumbing pollution contaminated contamination dense density soil +1:pipe +1:pipes +1:paint
+1:poisoning +1:crisis +1:exposure +1:contamination +1:dust +1:testing
+1:bullet +1:weights +1:weight +1:acid +1:shot +1:balloon +1:free -1:white -1:red -1:molten -1:melted
-2:made -1:of -1:contain -1:contains -1:than blood sinker sinkers coffin coins alloy water levels"""
LEADING = """-1:the -1:a -1:early -1:take -1:took -1:new -1:my -1:your -1:his -1:her -1:our -1:their -2:take -2:took -2:the -2:a
+1:singer +1:singers +1:guitarist +1:actor +1:role +1:author +1:to +1:over +1:of +1:up +1:time +1:story points goal goals game race
police detective case murder suspect election polls vote dog leash guitar actress investigator investigators detectives
sales team"""
FISHING = """fish fishes fishing fished fisherman fishermen angler anglers lake lakes river rivers pond caught catch catches catching
trout salmon perch pike carp cod tuna striped largemouth smallmouth bait lure lures hook hooked -1:sea -1:black
-1:striped -1:largemouth -1:smallmouth -1:rock -1:grilled grilled fried baked fillet fillets boat stream spawn pounder
pound pounds stocked swim swam reservoir"""
PLAYING = """music guitar guitars guitarist drum drums drummer band song songs voice voices singer sing sang jazz play plays played
playing player amp speaker speakers line lines deep note notes clef opera baritone tenor alto soprano treble sound
headphones volume +1:player +1:drum +1:line +1:guitar +1:clef +1:voice +1:notes -1:double -1:electric -1:upright
-1:acoustic -1:heavy -1:on"""
QUARREL = """-1:blazing -1:furious -1:bitter -1:flaming -1:violent -1:unholy -1:diplomatic -1:terrible -2:blazing -2:furious
-1:public neighbours neighbors argument quarrel quarrelled shouting +1:erupted +1:broke +1:over +1:about +1:between
+1:with angry wife husband"""
LINED_UP = """-1:front -1:back -1:first -1:second -1:third -1:last -1:top -1:bottom -1:long seat seats houses +1:of +1:houses +1:three
column columns chairs boat skull oars theater corn trees table -2:in -1:death -1:each -1:every -1:next"""
MATTRESS = """military army navy air force marine troops soldiers missile american loaded touch touched cover covered stolen runs home
run pitcher baseball runner acids acid camp camps base dna overseas naval three four walked"""
GROUNDS = """-1:theoretical -1:legal -1:philosophical -1:scientific -1:neural -1:biological -1:moral -1:conceptual +1:for +1:upon
theory knowledge belief"""
OLD_PEOPLE = """+1:man +1:woman +1:men +1:women +1:mother +1:father +1:parents +1:parent +1:aunt +1:uncle +1:grandmother +1:grandfather
+1:couple +1:king +1:queen +1:monk +1:priest +1:lady +1:gentleman +1:servant +1:relative +1:relatives +1:person
+1:people +1:widow"""
MATURED = """+1:care +1:beef +1:cheese +1:cheddar +1:whisky +1:whiskey +1:rum +1:steak +1:between +1:over +1:under +1:in +1:for
+1:about +1:from +1:and +1:well +1:badly"""
STUDYING = """+1:school +1:schools +1:student +1:students +1:program +1:programs +1:degree +1:degrees +1:studies +1:education +1:course
+1:courses +1:assistant +1:assistants +1:seminar +1:life"""
SCOOTERS = """-1:a -1:the -1:his -1:her -1:my -1:your -1:our -1:their -1:electric -1:old -1:new -1:stolen -1:by ride rides rode riding
parked motorcycle scooter helmet engine"""

SENSES: Mapping[str, Senses] = {
    "bass": _of("*", ADJ=PLAYING, DEFAULT=FISHING),
    "bow": _of("nn", DEFAULT=ARROWS, VERB=BOWING),
    "bows": _of("nns", DEFAULT=ARROWS, VERB=BOWING),
    "tear": _of("nn", DEFAULT=CRYING, VERB=TORN),
    "tears": _of("nns", DEFAULT=CRYING, VERB=TORN),
    "axes": _of("nns", DEFAULT=CHARTED, VERB=CHOPPED),
    "lead": _of("nn jj", DEFAULT=LEADING, METAL=PLUMBING),
    "row": _of("nn", DEFAULT=LINED_UP, QUARREL=QUARREL),
    "bases": _of("*", BASE=MATTRESS, DEFAULT=GROUNDS),
    "aged": _of("*", DEFAULT=MATURED, ADJ=OLD_PEOPLE),
    "graduate": _of("vb vbp", VERB="", DEFAULT=STUDYING),
    "moped": _of("*", VERB="around about room days", DEFAULT=SCOOTERS),
    "deserts": _of("*", DEFAULT="-1:the", VERB="-1:just"),
}
# What misaki's lists lack: pronunciations of ours, by the same kind of key. US and British symbols.
EXTRA: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "us": {
        "would've": {"DEFAULT": "wʊdəv", "None": "wˈʊdəv"},
        "should've": {"DEFAULT": "ʃʊdəv", "None": "ʃˈʊdəv"},
        "that's": {"DEFAULT": "ðæts", "DT": "ðˈæts"},
        "lead": {"METAL": "lˈɛd"},
        "resume": {"NOUN": "ɹˈɛzəmˌA"},
        "resumes": {"DEFAULT": "ɹəzˈumz", "NOUN": "ɹˈɛzəmˌAz"},
        "protest": {"VERB": "pɹətˈɛst"},
        "protests": {"VERB": "pɹətˈɛsts"},
        "row": {"QUARREL": "ɹˈW"},
        "bases": {"BASE": "bˈAsᵻz"},
        "aged": {"ADJ": "ˈAʤᵻd"},
        "Polish": {"VERB": "pˈɑlɪʃ"},
    },
    "gb": {
        "would've": {"DEFAULT": "wʊdəv", "None": "wˈʊdəv"},
        "should've": {"DEFAULT": "ʃʊdəv", "None": "ʃˈʊdəv"},
        "that's": {"DEFAULT": "ðats", "DT": "ðˈats"},
        "lead": {"METAL": "lˈɛd"},
        "resume": {"NOUN": "ɹˈɛzjʊmˌA"},
        "resumes": {"DEFAULT": "ɹɪzjˈuːmz", "NOUN": "ɹˈɛzjʊmˌAz"},
        "protest": {"VERB": "pɹətˈɛst"},
        "protests": {"VERB": "pɹətˈɛsts"},
        "row": {"QUARREL": "ɹˈW"},
        "bases": {"BASE": "bˈAsɪz"},
        "aged": {"ADJ": "ˈAʤɪd"},
        "Polish": {"VERB": "pˈɒlɪʃ"},
    },
}


def sense(word: str, words: Sequence[str], at: int) -> str:
    """Key of SENSES[word] with the most points. Raises KeyError for a word not in SENSES."""
    around = {other.lower() for other in words[max(0, at - REACH) : at]} | {other.lower() for other in words[at + 1 : at + 1 + REACH]}
    placed = {f"{place:+d}:{words[at + place].lower()}" for place in PLACES if 0 <= at + place < len(words)}
    points = {key: len(cues & around) + 2 * len(cues & placed) for key, cues in SENSES[word].cues.items()}
    return max(points, key=lambda key: points[key])
