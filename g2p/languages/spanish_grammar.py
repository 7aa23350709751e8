"""Spanish for the normalizer: numbers that agree with what is counted, dates, times, units, abbreviations.

SPANISH.cardinal(21, "personas")      # "veintiuna"
"""

import re

from g2p.languages import numerals
from g2p.languages.grammar import Grammar, pairs, units

FEMININE = re.compile(r"(?:as?|ciones|ción|dades|dad|sión|siones|noches?|veces|vez|mujeres|mujer|horas?|libras?)$")
MASCULINE = frozenset(numerals.words("día días mapa mapas problema problemas programa programas sistema sistemas"))
AFTER_UNO = frozenset(numerals.words("a al de del y o que es en con por para el la los las se más menos"))


def _cardinal(number: int, following: str) -> str:
    following = following.lower()
    if not following[:1].isalpha() or following in AFTER_UNO:
        return numerals.spanish(number)
    feminine = FEMININE.search(following) and following not in MASCULINE
    return numerals.spanish(number, "una" if feminine else "un")


def _roman(value: int, before: str) -> str:
    return numerals.spanish_ordinal(value, False) if before[:1].isupper() and value <= 10 else numerals.spanish(value)


SPANISH = Grammar(
    cardinal=_cardinal,
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
    units=units("""
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
    abbreviations=pairs("""
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
    roman_ordinal=_roman,
    spelled=frozenset(numerals.words("UE IA EI ADN DNI CEO ATM OEA")),
    fractions={"1/2": "medio", "1/3": "un tercio", "2/3": "dos tercios", "1/4": "un cuarto", "3/4": "tres cuartos", "1/5": "un quinto"},
    over="partido por",
    elided="",
)  # fmt: skip
