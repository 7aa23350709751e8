"""Italian for the normalizer: numbers, dates, times, units, abbreviations.

ITALIAN.clock(14, 5)                  # "quattordici e cinque"
"""

import re

from g2p.languages import numerals
from g2p.languages.grammar import Grammar, pairs, units

ORDERED = frozenset(numerals.words("secolo secoli parte classe sezione atto scena"))


def _cardinal(number: int, following: str) -> str:
    return numerals.italian(number, "uno" if not following else "una" if following.endswith("a") else "un")


def _roman(value: int, before: str) -> str:
    feminine = before.lower() in ("parte", "classe", "guerra", "sezione", "scena")
    return numerals.italian_ordinal(value, feminine) if before[:1].isupper() or before in ORDERED else numerals.italian(value)


ITALIAN = Grammar(
    cardinal=_cardinal,
    ordinal=numerals.italian_ordinal,
    digits=tuple(numerals.IT_ONES[:10]),
    months=numerals.words("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
    date=lambda day, month, year: f"{'primo' if day == 1 else numerals.italian(day)} {month}" + (f" {year}" if year else ""),
    clock=lambda hour, minute: numerals.italian(hour, "una") + (f" e {numerals.italian(minute)}" if minute else ""),
    point="virgola", minus="meno", percent="per cento", degrees=("grado", "gradi"), of_millions="di", money_joint="e",
    currencies={
        "€": ("euro", "euro", "centesimo", "centesimi"), "$": ("dollaro", "dollari", "centesimo", "centesimi"),
        "£": ("sterlina", "sterline", "penny", "pence"), "¥": ("yen", "yen", "", ""), "EUR": ("euro", "euro", "centesimo", "centesimi"),
        "USD": ("dollaro", "dollari", "centesimo", "centesimi"),
    },
    units=units("""
km/h|chilometro all'ora|chilometri all'ora
m/s|metro al secondo|metri al secondo
km²|chilometro quadrato|chilometri quadrati
m²|metro quadrato|metri quadrati
m2|metro quadrato|metri quadrati
mq|metro quadrato|metri quadrati
m³|metro cubo|metri cubi
km|chilometro|chilometri
m|metro|metri
cm|centimetro|centimetri
mm|millimetro|millimetri
kg|chilo|chili
g|grammo|grammi
mg|milligrammo|milligrammi
t|tonnellata|tonnellate
l|litro|litri
ml|millilitro|millilitri
h|ora|ore
min|minuto|minuti
s|secondo|secondi
ms|millisecondo|millisecondi
kW|chilowatt|chilowatt
W|watt|watt
kWh|chilowattora|chilowattora
V|volt|volt
Hz|hertz|hertz
kHz|chilohertz|chilohertz
MHz|megahertz|megahertz
GHz|gigahertz|gigahertz
KB|chilobyte|chilobyte
MB|megabyte|megabyte
GB|gigabyte|gigabyte
TB|terabyte|terabyte
ha|ettaro|ettari
"""),
    abbreviations=pairs("""
Sig.=signor
Sig.ra=signora
Sig.na=signorina
Sigg.=signori
sig.=signor
sig.ra=signora
Dott.=dottor
dott.=dottor
Dott.ssa=dottoressa
dott.ssa=dottoressa
Dr.=dottor
Prof.=professor
prof.=professor
Prof.ssa=professoressa
Ing.=ingegner
ing.=ingegner
Avv.=avvocato
avv.=avvocato
Arch.=architetto
Geom.=geometra
Rag.=ragionier
On.=onorevole
pag.=pagina
pagg.=pagine
p.=pagina
n.=numero
n°=numero
N.=numero
nr.=numero
tel.=telefono
Tel.=telefono
cap.=capitolo
vol.=volume
ed.=edizione
art.=articolo
ca.=circa
ecc.=eccetera
etc.=eccetera
es.=esempio
p.es.=per esempio
a.C.=avanti Cristo
a. C.=avanti Cristo
d.C.=dopo Cristo
d. C.=dopo Cristo
S.p.A.=società per azioni
s.r.l.=società a responsabilità limitata
P.za=piazza
P.zza=piazza
V.le=viale
C.so=corso
gg.=giorni
vs.=contro
"""),
    signs={"&": "e", "+": "più", "=": "uguale", "×": "per", "÷": "diviso", "±": "più o meno", "@": "chiocciola", "#": "cancelletto",
           "§": "paragrafo", "°": "gradi", "<": "minore di", ">": "maggiore di", "≈": "circa", "→": "", "*": "", "_": "", "%": "per cento",
           "©": "", "½": "mezzo", "¼": "un quarto", "¾": "tre quarti", "√": "radice di", "€": "euro", "$": "dollari", "£": "sterline"},
    web={".": "punto", "@": "chiocciola", "/": "barra", "-": "trattino", "_": "trattino basso", ":": "due punti"},
    roman_after=re.compile(r"(?:secol[oi]|capitolo|volume|atto|titolo|parte|classe|articolo|sezione)$", re.IGNORECASE),
    roman_ordinal=_roman,
    spelled=frozenset(("UE", "IA")),
    fractions={"1/2": "mezzo", "1/3": "un terzo", "2/3": "due terzi", "1/4": "un quarto", "3/4": "tre quarti", "1/5": "un quinto"},
    over="fratto",
    elided="l|all|dell|dall|nell|sull|d",
)  # fmt: skip
