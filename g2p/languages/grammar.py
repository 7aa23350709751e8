"""What the normalizer must know of a language: its number words, names of months, units and currencies, abbreviations, signs.

GRAMMARS["es"].cardinal(21, "personas")      # "veintiuna"
GRAMMARS["it"].clock(14, 5)                  # "quattordici e cinque"
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from g2p.languages import numerals


@dataclass(frozen=True)
class Grammar:
    """One language. `cardinal(number, following word)` agrees with what is counted; `ordinal(number, feminine)`."""

    cardinal: Callable[[int, str], str]
    ordinal: Callable[[int, bool], str]
    digits: tuple[str, ...]
    months: tuple[str, ...]
    date: Callable[[int, str, str], str]  # day, month, year (or "") as words
    clock: Callable[[int, int], str]
    point: str  # of a decimal
    minus: str
    percent: str
    degrees: tuple[str, str]  # one, several
    of_millions: str  # stands between a round million and what is counted
    currencies: Mapping[str, tuple[str, str, str, str]]  # one, several, one hundredth, several; Spanish joins with con
    money_joint: str
    units: Mapping[str, tuple[str, str]]
    abbreviations: Mapping[str, str]
    signs: Mapping[str, str]
    web: Mapping[str, str]
    roman_after: re.Pattern[str]  # a numeral behind these is one for certain
    roman_ordinal: Callable[[int, str], str]  # value, the word before
    spelled: frozenset[str]  # acronyms that could be words and are not
    fractions: Mapping[str, str]
    over: str  # between the numbers of another fraction
    elided: str  # articles that stand before a number with an apostrophe


FEMININE = re.compile(r"(?:as?|ciones|ción|dades|dad|sión|siones|noches?|veces|vez|mujeres|mujer|horas?|libras?)$")


MASCULINE = frozenset(numerals.words("día días mapa mapas problema problemas programa programas sistema sistemas"))


def _spanish(number: int, following: str) -> str:
    following = following.lower()
    if not following[:1].isalpha() or following in AFTER_UNO:
        return numerals.spanish(number)
    feminine = FEMININE.search(following) and following not in MASCULINE
    return numerals.spanish(number, "una" if feminine else "un")


def _italian(number: int, following: str) -> str:
    return numerals.italian(number, "uno" if not following else "una" if following.endswith("a") else "un")


AFTER_UNO = frozenset(numerals.words("a al de del y o que es en con por para el la los las se más menos"))


def _spanish_roman(value: int, before: str) -> str:
    return numerals.spanish_ordinal(value, False) if before[:1].isupper() and value <= 10 else numerals.spanish(value)


def _italian_roman(value: int, before: str) -> str:
    feminine = before.lower() in ("parte", "classe", "guerra", "sezione", "scena")
    return numerals.italian_ordinal(value, feminine) if before[:1].isupper() or before in ORDERED else numerals.italian(value)


ORDERED = frozenset(["secolo", "secoli", "parte", "classe", "sezione", "atto", "scena"])


def _pairs(lines: str) -> dict[str, str]:
    return {short: said.strip() for short, _, said in (line.partition("=") for line in lines.strip().split("\n"))}


def _units(lines: str) -> dict[str, tuple[str, str]]:
    return {short: (one, several) for short, one, several in (line.split("|") for line in lines.strip().split("\n"))}


SPANISH = Grammar(
    cardinal=_spanish,
    ordinal=numerals.spanish_ordinal,
    digits=tuple(numerals.ES_ONES[:10]),
    months=numerals.words("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
    date=lambda day, month, year: f"{numerals.spanish(day)} de {month}" + (f" de {year}" if year else ""),
    clock=lambda hour, minute: numerals.spanish(hour, "una") + (f" {'cero ' * (minute < 10)}{numerals.spanish(minute)}" if minute else ""),
    point="coma", minus="menos", percent="por ciento", degrees=("grado", "grados"), of_millions="de", money_joint="con",
    currencies={
        "€": ("euro", "euros", "céntimo", "céntimos"), "$": ("dólar", "dólares", "centavo", "centavos"),
        "£": ("libra", "libras", "penique", "peniques"), "¥": ("yen", "yenes", "", ""), "EUR": ("euro", "euros", "céntimo", "céntimos"),
        "USD": ("dólar", "dólares", "centavo", "centavos"),
    },
    units=_units("""
km/h|kilómetro por hora|kilómetros por hora
m/s|metro por segundo|metros por segundo
km²|kilómetro cuadrado|kilómetros cuadrados
m²|metro cuadrado|metros cuadrados
m2|metro cuadrado|metros cuadrados
m³|metro cúbico|metros cúbicos
km|kilómetro|kilómetros
m|metro|metros
cm|centímetro|centímetros
mm|milímetro|milímetros
kg|kilo|kilos
g|gramo|gramos
mg|miligramo|miligramos
t|tonelada|toneladas
l|litro|litros
ml|mililitro|mililitros
h|hora|horas
min|minuto|minutos
s|segundo|segundos
ms|milisegundo|milisegundos
kW|kilovatio|kilovatios
W|vatio|vatios
kWh|kilovatio hora|kilovatios hora
V|voltio|voltios
Hz|hercio|hercios
kHz|kilohercio|kilohercios
MHz|megahercio|megahercios
GHz|gigahercio|gigahercios
KB|kilobyte|kilobytes
MB|megabyte|megabytes
GB|gigabyte|gigabytes
TB|terabyte|terabytes
ha|hectárea|hectáreas
"""),
    abbreviations=_pairs("""
Sr.=señor
Sra.=señora
Srta.=señorita
Sres.=señores
Dr.=doctor
Dra.=doctora
D.=don
Dña.=doña
D.ª=doña
Prof.=profesor
Ud.=usted
Uds.=ustedes
Vd.=usted
Vds.=ustedes
Excmo.=excelentísimo
Sto.=santo
Sta.=santa
Av.=avenida
Avda.=avenida
C/=calle
pág.=página
págs.=páginas
núm.=número
n.º=número
n.°=número
nº=número
n°=número
Nº=número
tel.=teléfono
Tel.=teléfono
cap.=capítulo
vol.=volumen
ed.=edición
aprox.=aproximadamente
etc.=etcétera
p. ej.=por ejemplo
p.ej.=por ejemplo
a. C.=antes de Cristo
a.C.=antes de Cristo
d. C.=después de Cristo
d.C.=después de Cristo
a. m.=de la mañana
a.m.=de la mañana
p. m.=de la tarde
p.m.=de la tarde
EE. UU.=Estados Unidos
EE.UU.=Estados Unidos
EEUU=Estados Unidos
JJ. OO.=Juegos Olímpicos
S. A.=sociedad anónima
S.A.=sociedad anónima
Cía.=compañía
dpto.=departamento
vs.=contra
"""),
    signs={"&": "y", "+": "más", "=": "igual a", "×": "por", "÷": "entre", "±": "más menos", "@": "arroba", "#": "almohadilla",
           "§": "sección", "°": "grados", "<": "menor que", ">": "mayor que", "≈": "aproximadamente", "→": "", "*": "", "_": "",
           "%": "por ciento", "©": "",
           "½": "un medio", "¼": "un cuarto", "¾": "tres cuartos", "√": "raíz de", "€": "euros", "$": "dólares", "£": "libras"},
    web={".": "punto", "@": "arroba", "/": "barra", "-": "guion", "_": "guion bajo", ":": "dos puntos"},
    roman_after=re.compile(r"(?:siglos?|capítulo|tomo|volumen|acto|título|parte|fase|artículo|congreso|edición)$", re.IGNORECASE),
    roman_ordinal=_spanish_roman,
    spelled=frozenset(numerals.words("UE IA EI ADN DNI CEO ATM OEA")),
    fractions={"1/2": "medio", "1/3": "un tercio", "2/3": "dos tercios", "1/4": "un cuarto", "3/4": "tres cuartos", "1/5": "un quinto"},
    over="partido por",
    elided="",
)  # fmt: skip

ITALIAN = Grammar(
    cardinal=_italian,
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
    units=_units("""
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
    abbreviations=_pairs("""
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
    roman_ordinal=_italian_roman,
    spelled=frozenset(("UE", "IA")),
    fractions={"1/2": "mezzo", "1/3": "un terzo", "2/3": "due terzi", "1/4": "un quarto", "3/4": "tre quarti", "1/5": "un quinto"},
    over="fratto",
    elided="l|all|dell|dall|nell|sull|d",
)  # fmt: skip
GRAMMARS: Mapping[str, Grammar] = {"es": SPANISH, "it": ITALIAN}
