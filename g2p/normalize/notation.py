"""Small notations inside prose: chess moves, chemical formulas, enumeration letters, ports.

chess(Scan("He played Nf3.", "us"), 10)        # knight [F] three
formula(Scan("Rust is Fe2O3.", "us"), 8)       # [FE] two [O] three
"""

import re

from g2p.normalize.acronyms import number_piece
from g2p.normalize.number_words import cardinal
from g2p.normalize.state import Scan

PIECES = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
MOVE = re.compile(r"([KQRBN])([a-h]?)([1-8]?)(x?)([a-h])([1-8])([+#]?)(?![\w#+])")
CASTLING = re.compile(r"O-O(-O)?(?![\w-])")
_ELEMENTS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Ag Cd In Sn Sb "
    "Te I Xe Cs Ba La Ce W Pt Au Hg Pb Bi U"
)
ELEMENTS = frozenset(_ELEMENTS.split())
FORMULA = re.compile(r"(?:[A-Z][a-z]?\d{0,3}){2,8}(?![\w'-])")
ATOM = re.compile(r"([A-Z][a-z]?)(\d*)")
PLAIN_FORMULAS = frozenset(
    [
        "NaCl",
        "NaOH",
        "KCl",
        "KBr",
        "HCl",
        "NaF",
        "LiCl",
        "AgCl",
        "CaO",
        "MgO",
        "ZnO",
        "FeO",
        "CuO",
        "NaHCO",
        "LiF",
        "HBr",
        "KOH",
        "TiN",
        "GaAs",
        "GaN",
        "SiC",
    ]
)
ENUMERATED = re.compile(r"([A-HJ-Za-z])(?=\)\s)")
HOST_PORT = re.compile(r"localhost:(\d{2,5})(?!\d)")


def chess(scan: Scan, position: int) -> int:
    """Nf3, Qxd5+, Rad1: piece, file and row, check or mate."""
    match = MOVE.match(scan.text, position)
    if not match:
        return position
    piece, own_file, own_row, takes, file, row, sign = match.groups()
    own = (f" ~{own_file.upper()}" if own_file else "") + (f" {cardinal(int(own_row), scan.dialect)}" if own_row else "")
    end = {"+": " check", "#": " mate", "": ""}[sign]
    spoken = f"{PIECES[piece]}{own}{' takes' * bool(takes)} ~{file.upper()} {cardinal(int(row), scan.dialect)}{end}"
    scan.say(spoken, position, match.end())
    return match.end()


def castling(scan: Scan, position: int) -> int:
    """O-O and O-O-O."""
    match = CASTLING.match(scan.text, position)
    if not match:
        return position
    scan.say("castles queenside" if match[1] else "castles kingside", position, match.end())
    return match.end()


def formula(scan: Scan, position: int) -> int:
    """Fe2O3, NaCl: letters run up to a number; only where an element of two letters makes other rules fail."""
    match = FORMULA.match(scan.text, position)
    if not match or not any(character.islower() for character in match[0]):
        return position
    atoms = ATOM.findall(match[0])
    if not all(symbol in ELEMENTS for symbol, _ in atoms) or (match[0] not in PLAIN_FORMULAS and not any(count for _, count in atoms)):
        return position
    said, letters = [], ""
    for symbol, count in atoms:
        letters += symbol.upper()
        if count:
            said += [f"~{letters}", cardinal(int(count), scan.dialect)]
            letters = ""
    scan.say(" ".join([*said, *([f"~{letters}"] if letters else [])]), position, match.end())
    return match.end()


def enumerated(scan: Scan, position: int) -> int:
    """a), (b) before the points of a list: the letter."""
    match = ENUMERATED.match(scan.text, position)
    before = scan.text[position - 1 : position]
    if not match or not (before == "" or before in " \t\n("):
        return position
    scan.letters(match[1].upper(), position, position + 1, False)
    return position + 1


def port(scan: Scan, position: int) -> int:
    """localhost:8080: the port in pairs."""
    match = HOST_PORT.match(scan.text, position)
    if not match:
        return position
    colon = match.start(1) - 1
    scan.say("local host", position, colon, True)
    scan.say("colon", colon, colon + 1, True)
    scan.say(number_piece(match[1], scan.dialect), colon + 1, match.end())
    return match.end()
