"""Write g2p's own functions as data, so that a port runs the same rules and nobody writes them
twice: text/us.rules of a bundle.

    write_rules(Path("text/us.rules"), roots, natives)

All that `roots` reach is written: functions (g2p/port/rule_code.py), classes, data, the attributes
of objects that the code reads (a cached property as its value), patterns as the tree that Python's
own `re` parsed, each character set as the ranges that it matches here. A number is LEB128 (zigzag
where it may be negative), a string its length and UTF-8. File: "KRUL", format, count of constants,
their lengths, roots, constants. swift/Sources/KokoroText runs it.
"""

import functools
import inspect
import re
import struct
import types
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from kokoro_g2p.errors import InputError
from kokoro_g2p.port.rule_code import (
    OWN,
    Unsupported,
    compile_function,
    encode,
    encode_list,
    encode_number,
    encode_signed,
    encode_text,
)

FACTORIES: dict[Any, int] = {list: 2, set: 3, dict: 4}
MAGIC, FORMAT = b"KRUL", 3
EVERY = "".join(map(chr, range(0x110000)))  # surrogates too
BEYOND_LATIN, MANY = 0x2B0, 16  # a character; borders
SHORT_BYTES = 16  # of a part of a pattern: a longer one is written once for all patterns
ATS = [
    f"AT_{place}"
    for place in ("BEGINNING", "END", "END_STRING", "BOUNDARY", "NON_BOUNDARY")
    + ("BEGINNING_LINE", "END_LINE", "BEGINNING_STRING")
]
REPEATS = {
    "MAX_REPEAT": "R_GREEDY",
    "MIN_REPEAT": "R_LAZY",
    "POSSESSIVE_REPEAT": "R_POSSESSIVE",
}
# what decides which characters a node matches
ALPHABET, BREADTH = re.ASCII | re.UNICODE, re.IGNORECASE | re.DOTALL
WORD = ((_constants.CATEGORY, _constants.CATEGORY_WORD),)


class Pool:
    """Constants by their place, each written once; classes and functions among them are compiled
    when they are first reached.
    """

    def __init__(self, natives: dict[int, str]) -> None:
        self.natives = natives
        self.alive: list[Any] = []
        self.places: dict[Any, int] = {}
        self.content: list[bytes] = []
        self.classes: dict[type, set[str]] = {}
        self.constructed: set[type] = set()  # by the code; of others no __init__ is written
        self.objects: dict[int, tuple[Any, dict[str, bytes]]] = {}  # by place, with its attributes
        self.names = {"__init__", "__call__"}  # of attributes that the code asks for

    def place(self, value: Any) -> int:
        """Return the place of a value, which is written where it is new."""
        # `re` forgets what it compiled, so that equal patterns are one object or two
        plain = isinstance(value, str | int | float | bool | types.NoneType | re.Pattern)
        # 1, True and 1.0 are equal keys in Python, so that the type belongs to the key.
        key = (type(value), value) if plain else id(value)
        if isinstance(value, type):
            self.constructed.add(value)
        return self.place_of(value, key)

    def place_of(self, value: Any, key: Any) -> int:
        """Return the place of a value that is known by `key`."""
        if key not in self.places:
            # The place is taken before the value is written, so that a cycle finds it.
            self.places[key] = len(self.content)
            self.content.append(b"")
            self.alive.append(value)  # its id stays its own
            self.content[self.places[key]] = self.encode_value(value, self.places[key])
        return self.places[key]

    def encode_place(self, value: Any) -> bytes:
        return encode_number(self.place(value))

    def encode_places(self, values: Iterable[Any]) -> bytes:
        return encode_list([self.encode_place(value) for value in values])

    def encode_value(self, value: Any, place: int) -> bytes:
        # A port remembers answers itself, so that only the function under the cache is written.
        if isinstance(value, functools._lru_cache_wrapper):
            return encode("REMEMBERS", self.encode_place(value.__wrapped__))
        # Large tables are known by identity: a port has its own form of them.
        if id(value) in self.natives:
            return encode("NATIVE", encode_text(self.natives[id(value)]))
        match value:
            case None | True | False:
                return encode((None, True, False).index(value))
            case int():
                return encode("INT", encode_signed(int(value)))
            case float():
                return encode("FLOAT", struct.pack("<d", value))
            case str():
                return encode("TEXT", encode_text(value))
            case dict():
                pairs = [
                    self.encode_place(key) + self.encode_place(one) for key, one in value.items()
                ]
                return encode("DICT", encode_list(pairs))
            case tuple() | range():
                return encode("TUPLE", self.encode_places(value))
            case list():
                return encode("LIST", self.encode_places(value))
            # A set has no order, and the file shall be the same in every process.
            case set() | frozenset():
                return encode("SET", self.encode_places(sorted(value, key=make_sort_key)))
            case re.Pattern():
                return encode("PATTERN", encode_pattern(value, self))
            case types.MethodType():
                return encode(
                    "BOUND",
                    self.encode_place(value.__self__),
                    self.encode_attribute(value.__name__),
                )
            case functools.partial():
                keywords = [
                    self.encode_place(name) + self.encode_place(one)
                    for name, one in value.keywords.items()
                ]
                return encode(
                    "PARTIAL",
                    self.encode_place(value.func),
                    self.encode_places(value.args),
                    encode_list(keywords),
                )
        if isinstance(value, types.FunctionType) and value.__module__.startswith(OWN):
            # Whatever the code lacks a form for is told with the function's name.
            try:
                return encode("FUNCTION", compile_function(value, self))
            except (Unsupported, OSError, LookupError, ValueError) as problem:
                raise Unsupported(f"{value.__qualname__}: {problem}") from None
        if isinstance(value, type) and value.__module__.startswith(OWN):
            self.classes.setdefault(value, set())
            return b""  # written last, when all names are known
        # What is not of this package a port must have under its name.
        if callable(value) and hasattr(value, "__name__"):
            owner = getattr(value, "__objclass__", None)
            home = owner.__name__ if owner else value.__module__
            name = "" if home in ("builtins", "re", None) else f"{home}."
            return encode("BUILTIN", encode_text(name + value.__name__))
        if type(value).__module__.startswith(OWN):
            self.place_of(type(value), id(type(value)))
            self.objects[place] = value, {}
            return b""  # written with the classes
        raise Unsupported(f"a {type(value).__name__}")

    def place_part(self, content: bytes) -> int:
        """Return the place of a part that patterns share."""
        if content not in self.places:
            self.places[content] = len(self.content)
            self.content.append(content)
        return self.places[content]

    def place_ranges(self, borders: tuple[int, ...]) -> int:
        """Return the place of a set of characters: the steps between its borders, and the place of
        the borders beyond Latin, which most sets share.
        """
        split = sum(border < BEYOND_LATIN for border in borders)
        is_shared = 0 < split < len(borders) - MANY
        # The place plus one, so that 0 can mean that nothing is shared
        tail = self.place_ranges(borders[split:]) + 1 if is_shared else 0
        head = borders[:split] if tail else borders
        # Steps are small where borders are large, so that most take one byte.
        steps = [encode_number(after - before) for before, after in pairwise((0, *head))]
        return self.place_part(encode_list(steps) + encode_number(tail))

    def encode_attribute(self, name: str) -> bytes:
        """Return the place of the name of an attribute that the code reads."""
        self.names.add(name)
        return self.encode_place(name)

    def write_classes(self) -> None:
        """Write the methods and attributes whose names the code reads, until none is new; then
        classes and objects.
        """
        before = (0, 0)
        # Writing a method reaches new names, classes and objects, whose attributes come in the next
        # round.
        while before != (len(self.content), len(self.names)):
            before = len(self.content), len(self.names)
            for owner, written in list(self.classes.items()):
                # Without a call of the class its __init__ would never run in a port.
                skipped = set() if owner in self.constructed else {"__init__"}
                for name in sorted(self.names - written - skipped):
                    written.add(name)
                    self.describe_class(owner, {name})
            for value, attributes in list(self.objects.values()):
                for name in sorted(self.names - attributes.keys()):
                    # A cached property is written as the value that it has.
                    is_cached = isinstance(vars(type(value)).get(name), functools.cached_property)
                    if is_cached or name in vars(value):
                        attributes[name] = self.encode_place(name) + self.encode_place(
                            getattr(value, name)
                        )
        # Only here are all names known, so that empty places get their content.
        for owner, written in self.classes.items():
            self.content[self.places[id(owner)]] = self.describe_class(owner, written)
        for place, (value, attributes) in self.objects.items():
            head = encode("OBJECT", encode_number(self.places[id(type(value))]))
            self.content[place] = head + encode_list([*attributes.values()])

    def describe_class(self, owner: type, names: set[str]) -> bytes:
        """Return a class: name, fields with their defaults, attributes."""
        members = []
        for field in fields(owner) if is_dataclass(owner) else ():
            factory = FACTORIES.get(field.default_factory, 0)
            has_default = field.default is not MISSING
            members.append(
                encode(
                    self.encode_place(field.name),
                    1 if has_default else factory,
                    self.encode_place(field.default) if has_default else b"",
                )
            )
        attributes = []
        # only attributes that the code reads are written
        for name in sorted(names):
            attribute = inspect.getattr_static(owner, name, None)
            # A kind's place in this row is its code in the file.
            kinds = enumerate((types.FunctionType, property, classmethod, staticmethod, str))
            kind = next((code for code, kind in kinds if isinstance(attribute, kind)), None)
            # A dataclass is filled from its fields, and needs no __init__.
            if kind is not None and not (name == "__init__" and is_dataclass(owner)):
                attributes.append(
                    encode(
                        self.encode_place(name), kind, self.encode_place(get_function(attribute))
                    )
                )
        return encode(
            "CLASS",
            encode_text(owner.__name__),
            is_dataclass(owner),
            encode_list(members),
            encode_list(attributes),
        )


def make_sort_key(item: Any) -> str:
    """Return a key that is the same in every process, where the order of an inner set is not."""
    return repr(sorted(item) if isinstance(item, frozenset) else item)


def get_function(attribute: Any) -> Any:
    if isinstance(attribute, property):
        return attribute.fget
    return getattr(attribute, "__func__", attribute)


def encode_pattern(value: "re.Pattern[str]", pool: Pool) -> bytes:
    """Return a pattern: an empty source, which no rule reads, groups with their names, the tree."""
    parsed = _parser.parse(value.pattern, value.flags)
    names = [encode_text(name) + encode_number(group) for name, group in value.groupindex.items()]
    return (
        encode_text("")
        + encode_number(value.groups)
        + encode_list(names)
        + encode_sequence(parsed, value.flags, pool)
    )


def encode_sequence(parsed: Any, flags: int, pool: Pool) -> bytes:
    """Return nodes one after the other, or where they are long the place of their one copy: rows of
    the grammar name the same slots.
    """
    content = encode_list(
        [encode_node(operation, value, parsed.state, flags, pool) for operation, value in parsed]
    )
    # A short part costs less than its place.
    is_long = len(content) > SHORT_BYTES
    return (
        encode_list([encode("R_SHARED", encode_number(pool.place_part(content)))])
        if is_long
        else content
    )


def encode_node(operation: Any, argument: Any, state: Any, flags: int, pool: Pool) -> bytes:
    """Return one node of a pattern's tree."""
    match str(operation), argument:
        # Without regard to case a letter is a set of characters, and is written as one.
        case "LITERAL", _ if not flags & re.IGNORECASE:
            return encode("R_LITERAL", encode_number(argument))
        case ("LITERAL" | "NOT_LITERAL" | "IN" | "ANY") as name, _:
            one = tuple(argument) if name == "IN" else argument
            borders = find_ranges(operation, one, state.flags & ALPHABET, flags & BREADTH)
            return encode("R_SET", encode_number(pool.place_ranges(borders)))
        case "AT", _:
            ends = (_constants.AT_BEGINNING, _constants.AT_END)
            line = "_LINE" if flags & re.MULTILINE and argument in ends else ""
            # What counts as part of a word hangs on the pattern's flags.
            word = pool.place_ranges(find_ranges(_constants.IN, WORD, state.flags & ALPHABET, 0))
            return encode("R_AT", ATS.index(f"{argument}{line}"), encode_number(word))
        case "BRANCH", (_, branches):
            return encode(
                "R_BRANCH", encode_list([encode_sequence(one, flags, pool) for one in branches])
            )
        case "SUBPATTERN", (group, added, removed, inner):
            content = encode_sequence(inner, (flags | added) & ~removed, pool)
            return encode("R_GROUP", encode_number(group or 0), content)
        case name, (least, most, inner) if name in REPEATS:
            # 0: as often as there is
            limit = 0 if most is _constants.MAXREPEAT else most + 1
            content = encode_sequence(inner, flags, pool)
            return encode(REPEATS[name], encode_number(least), encode_number(limit), content)
        case ("ASSERT" | "ASSERT_NOT") as name, (direction, inner):
            kind = "R_AHEAD" if direction > 0 else "R_BEHIND"
            # Python allows only look-behind of one width, so that a port steps back by it.
            width = inner.getwidth()[0] if direction < 0 else 0
            return encode(
                kind, name == "ASSERT", encode_number(width), encode_sequence(inner, flags, pool)
            )
        case "GROUPREF", _:
            return encode("R_BACK", encode_number(argument))
    raise Unsupported(f"{operation} in a pattern")


@functools.cache
def find_ranges(operation: Any, argument: Any, alphabet: int, flags: int) -> tuple[int, ...]:
    """Return the first and last character of each range that a node of one character matches.
    argument: a set as a tuple. alphabet: flags of its pattern.
    """
    state = _parser.State()
    state.flags = alphabet
    one = _parser.SubPattern(state, [(operation, argument)])
    # Repeated, the node matches each unbroken range of characters at one go.
    compiled = _compiler.compile(
        _parser.SubPattern(state, [(_constants.MAX_REPEAT, (1, _constants.MAXREPEAT, one))]), flags
    )
    return tuple(
        border for match in compiled.finditer(EVERY) for border in (match.start(), match.end() - 1)
    )


def write_rules(path: Path, roots: dict[str, Any], natives: dict[int, str]) -> None:
    """Write `roots` by name and all that they reach. natives: by id the names of what a port holds
    itself. Raises InputError that names a function which a port could not run.
    """
    pool = Pool(natives)
    try:
        places = {name: pool.place(one) for name, one in roots.items()}
        pool.write_classes()
    except Unsupported as problem:
        raise InputError(f"the rules cannot be written: {problem}") from None
    # Lengths stand before all content, so that a port finds a constant without reading others.
    lengths = b"".join(encode_number(len(content)) for content in pool.content)
    head = encode_list([encode_text(name) + encode_number(place) for name, place in places.items()])
    count = struct.pack("<II", FORMAT, len(pool.content))
    path.write_bytes(MAGIC + count + lengths + head + b"".join(pool.content))
