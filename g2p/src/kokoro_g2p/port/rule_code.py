"""Compile one function of g2p to bytes: names become slots or constants, statements and expressions
stand in the order in which a port reads them.

    compile_function(function, pool)     # name, arguments, slots, body

`pool` gives constants their places (g2p/port/rule_program.py, which says how the file is written).
A generator becomes the list of what it yields; `try`, `with`, `**` and imports of whole modules are
refused.
"""

import ast
import builtins
import functools
import re
import types
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

# The byte of a name is its place in its line: expressions, statements, constants, patterns.
CODES = {
    name: code
    for names in (
        "CONST LOCAL OUTER ATTR INDEX SLICE CALL METHOD BINARY COMPARE AND OR NOT IF_ELSE BUILD"
        " BUILD_DICT JOIN COMPREHENSION CLOSURE NEGATIVE STARRED",
        "EXPRESSION ASSIGN AUGMENT RETURN IF FOR WHILE BREAK CONTINUE RAISE YIELD YIELD_FROM",
        "NONE TRUE FALSE INT FLOAT TEXT TUPLE LIST DICT SET PATTERN FUNCTION BOUND PARTIAL BUILTIN"
        " CLASS OBJECT NATIVE REMEMBERS",
        "R_LITERAL R_NOT_LITERAL R_SET R_AT R_BRANCH R_GROUP R_GREEDY R_LAZY R_POSSESSIVE R_ATOMIC"
        " R_AHEAD R_BEHIND R_BACK R_SHARED",
    )
    for code, name in enumerate(names.split())
}
# Nodes that are written as their code and these of their fields.
PLAIN: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Expr: ("EXPRESSION", "value"),
    ast.Return: ("RETURN", "value"),
    ast.If: ("IF", "test", "body", "orelse"),
    ast.Break: ("BREAK",),
    ast.Continue: ("CONTINUE",),
    ast.Yield: ("YIELD", "value"),
    ast.YieldFrom: ("YIELD_FROM", "value"),
    ast.IfExp: ("IF_ELSE", "test", "body", "orelse"),
    ast.Starred: ("STARRED", "value"),
}
OPERATORS, COMPARISONS = (
    [getattr(ast, name) for name in names.split()]
    for names in (
        "Add Sub Mult Div FloorDiv Mod BitOr BitAnd",
        "Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn",
    )
)
LOGIC = {ast.And: "AND", ast.Or: "OR", ast.Not: "NOT", ast.USub: "NEGATIVE"}
COMPREHENSIONS = {ast.ListComp: 0, ast.GeneratorExp: 0, ast.SetComp: 1, ast.DictComp: 2}
STOPS = {"any": 3, "all": 4, "next": 5}  # a comprehension that may end early
BUILDS = {ast.Tuple: 0, ast.List: 1, ast.Set: 2}


OWN = "kokoro_g2p"  # functions and classes of this package are written, others are named


class Unsupported(Exception):
    """The code that is compiled has no form in the file."""


def encode_number(value: int) -> bytes:
    """Encode a natural number as LEB128."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def encode(*parts: str | int | bytes) -> bytes:
    """Join parts: bytes as they are, a name of CODES or a small number as one byte."""
    contents = []
    for part in parts:
        code = CODES[part] if isinstance(part, str) else part
        contents.append(code if isinstance(code, bytes) else bytes([code]))
    return b"".join(contents)


def encode_signed(value: int) -> bytes:
    return encode_number(value << 1 if value >= 0 else (-value << 1) - 1)


def encode_text(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return encode_number(len(content)) + content


def encode_list(items: Sequence[bytes]) -> bytes:
    return encode_number(len(items)) + b"".join(items)


@functools.cache
def parse_functions(path: str) -> dict[tuple[str, int], ast.FunctionDef | ast.Lambda]:
    """Return the functions of a file by name and first line, that of the first decorator."""
    functions = {}
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", ())
            line = min(one.lineno for one in (node, *decorators))
            functions[getattr(node, "name", "<lambda>"), line] = node
    return functions


def compile_function(function: types.FunctionType, pool: Any) -> bytes:
    """Return the bytes of a function of a module."""
    code = function.__code__
    node = parse_functions(code.co_filename)[function.__name__, code.co_firstlineno]
    if code.co_freevars:
        raise Unsupported("free variables")
    scope = Scope(pool, function.__globals__, node, None, function.__qualname__)
    return scope.compile(function.__defaults__ or (), function.__kwdefaults__ or {})


@dataclass
class Scope:
    """A function while it is compiled: the slots of its names, and its code."""

    pool: Any  # g2p/port/rule_program.py's Pool
    environment: dict[str, Any]
    node: Any
    parent: "Scope | None"
    name: str
    yields: bool = False

    def __post_init__(self) -> None:
        self.environment = dict(self.environment)
        self.body = self.node.body
        if isinstance(self.node, ast.Lambda):
            self.body = [ast.Return(self.node.body)]
        signature = self.node.args
        self.plain = [one.arg for one in (*signature.posonlyargs, *signature.args)]
        self.only = [one.arg for one in signature.kwonlyargs]
        if signature.kwarg:
            raise Unsupported("**")
        self.slots: dict[str, int] = {}
        self.count = 0
        self.inner: list[dict[str, int]] = []  # of comprehensions, the nearest last
        # arguments come first, in the order in which a call fills them; then every name that the
        # body assigns, wherever it first does
        rest = [signature.vararg.arg] if signature.vararg else []
        for name in (*self.plain, *self.only, *rest, *list_assigned(self.body)):
            if name not in self.slots:
                self.slots[name] = self.add_slot()

    def add_slot(self) -> int:
        self.count += 1
        return self.count - 1

    def compile(self, defaults: tuple[Any, ...], keyword_defaults: dict[str, Any]) -> bytes:
        """Write name, kinds of arguments, the defaults of the last positional ones and of
        keyword-only ones, slots, whether it yields, body.
        """
        body = self.encode(self.body)
        head = self.pool.encode_places(self.plain) + self.pool.encode_places(defaults)
        only = []
        for name in self.only:
            content = self.pool.encode_place(name)
            if name in keyword_defaults:
                only.append(content + b"\1" + self.pool.encode_place(keyword_defaults[name]))
            else:
                only.append(content + b"\0")
        has_rest = self.node.args.vararg is not None
        head += encode_list(only) + encode(has_rest, self.yields)
        return encode(encode_text(self.name), 1, head, encode_number(self.count), body)

    def encode(self, *parts: Any) -> bytes:
        """Join parts as the function `encode` does; expressions, and lists of them or of
        statements, are compiled first.
        """
        return encode(*map(self.compile_part, parts))

    def compile_part(self, part: Any) -> Any:
        if isinstance(part, list):
            contents = [self.compile_part(one) for one in part]
            return encode_list([content for content in contents if content])
        if isinstance(part, ast.stmt):
            return self.compile_statement(part)
        return self.compile_expression(part) if part is None or isinstance(part, ast.expr) else part

    def compile_fields(self, node: ast.AST) -> bytes:
        """Write a node of PLAIN: its code, then its fields."""
        code, *names = PLAIN[type(node)]
        return self.encode(code, *[getattr(node, name) for name in names])

    def compile_statement(self, node: ast.stmt) -> bytes:
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass() | ast.Assert() | ast.AnnAssign(value=None):
                return b""
            case ast.Expr(ast.Yield() | ast.YieldFrom() as inner):
                self.yields = True
                return self.compile_fields(inner)
            case ast.Assign(targets, value):
                return self.encode("ASSIGN", value, self.compile_targets(targets))
            case ast.AnnAssign(target, _, value):
                return self.encode("ASSIGN", value, self.compile_targets([target]))
            case ast.AugAssign(target, operator, value):
                code = OPERATORS.index(type(operator))
                return self.encode("AUGMENT", code, self.compile_target(target), value)
            case ast.For(target, source, body, other):
                return self.encode("FOR", source, self.compile_target(target), body, other)
            case ast.While(test, body, []):
                return self.encode("WHILE", test, body)
            case ast.Raise(ast.Call(args=[message, *_]), _):
                return self.encode("RAISE", message)
            case ast.Raise():
                return self.encode("RAISE", None)
            case ast.ImportFrom(module, names, 0):
                for one in names:
                    home = __import__(module or "", fromlist=[one.name])
                    self.environment[one.asname or one.name] = getattr(home, one.name)
                return b""
            case ast.FunctionDef(name):
                return self.encode(
                    "ASSIGN",
                    "CLOSURE",
                    self.compile_nested(node),
                    self.compile_targets([ast.Name(name)]),
                )
        if type(node) in PLAIN:
            return self.compile_fields(node)
        raise Unsupported(f"{type(node).__name__} in line {node.lineno}")

    def compile_targets(self, nodes: list[ast.expr]) -> bytes:
        return encode_list([self.compile_target(node) for node in nodes])

    def compile_target(self, node: ast.expr) -> bytes:
        match node:
            case ast.Name(name):
                place = self.place(name)
                assert place is not None  # `list_assigned` gave it a slot
                return self.encode("LOCAL", encode_number(place[1]))
            case ast.Attribute(value, name):
                return self.encode("ATTR", value, self.pool.encode_place(name))
            case ast.Subscript(value, key) if not isinstance(key, ast.Slice):
                return self.encode("INDEX", value, key)
            case ast.Starred(value):
                return self.encode("STARRED", self.compile_target(value))
            case ast.Tuple(parts) | ast.List(parts):
                return self.encode("BUILD", self.compile_targets(parts))
        raise Unsupported(f"{ast.unparse(node)} is assigned")

    def find_value(self, node: ast.expr) -> Any:
        """Return the value that a constant, a name or a module's attribute has now; MISSING where
        it is known only when the function runs.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and self.place(node.id) is None:
            return self.environment.get(node.id, getattr(builtins, node.id, MISSING))
        if isinstance(node, ast.Attribute):
            owner = self.find_value(node.value)
            is_foreign_class = isinstance(owner, type) and not owner.__module__.startswith(OWN)
            if isinstance(owner, types.ModuleType) or is_foreign_class:
                return getattr(owner, node.attr)
        return MISSING

    def place(self, name: str) -> tuple[int, int] | None:
        """Return how many functions further out a name has its slot, and the slot."""
        depth, scope = 0, self  # type: tuple[int, Scope | None]
        while scope is not None:
            for slots in (*reversed(scope.inner), scope.slots):
                if name in slots:
                    return depth, slots[name]
            depth += 1
            scope = scope.parent
        return None

    def compile_expression(self, node: ast.expr | None) -> bytes:
        node = node or ast.Constant(None)
        value = self.find_value(node)
        if value is not MISSING and not isinstance(value, types.ModuleType):
            return self.encode("CONST", self.pool.encode_place(value))
        match node:
            case ast.Name(name):
                place = self.place(name)
                if place is None:
                    raise Unsupported(f"the name {name}")
                depth, slot = place
                if depth:
                    return self.encode("OUTER", encode_number(depth), encode_number(slot))
                return self.encode("LOCAL", encode_number(slot))
            case ast.Attribute(value, name):
                return self.encode("ATTR", value, self.pool.encode_attribute(name))
            case ast.Subscript(value, ast.Slice(lower, upper, step)):
                return self.encode("SLICE", value, lower, upper, step)
            case ast.Subscript(value, key):
                return self.encode("INDEX", value, key)
            case ast.Call():
                return self.compile_call(node)
            case ast.BinOp(left, operator, right):
                return self.encode("BINARY", OPERATORS.index(type(operator)), left, right)
            case ast.Compare(left, operators, others):
                pairs = [
                    self.encode(COMPARISONS.index(type(operator)), other)
                    for operator, other in zip(operators, others, strict=True)
                ]
                return self.encode("COMPARE", left, encode_list(pairs))
            case ast.BoolOp(operator, values) | ast.UnaryOp(operator, values):
                return self.encode(LOGIC[type(operator)], values)
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return self.encode("BUILD", BUILDS[type(node)], parts)
            case ast.Dict(keys, values):
                # a dictionary that is unpacked has no key
                first = [self.encode("STARRED" if key is None else key) for key in keys]
                pairs = [self.encode(*pair) for pair in zip(first, values, strict=True)]
                return self.encode("BUILD_DICT", encode_list(pairs))
            case ast.JoinedStr(parts):
                return self.encode("JOIN", encode_list([self.compile_format(one) for one in parts]))
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self.compile_comprehension(node, COMPREHENSIONS[type(node)])
            case ast.Lambda():
                return self.encode("CLOSURE", self.compile_nested(node))
        if type(node) in PLAIN:
            return self.compile_fields(node)
        raise Unsupported(f"{ast.unparse(node)} in line {node.lineno}")

    def compile_format(self, node: ast.expr) -> bytes:
        """A part of an f-string: an expression and its format."""
        form = ""
        if isinstance(node, ast.FormattedValue):
            if isinstance(node.format_spec, ast.JoinedStr):
                form = node.format_spec.values[0].value  # type: ignore[attr-defined]
            if node.conversion == ord("r"):
                form = "r"
            node = node.value
        return self.compile_expression(node) + encode_text(form)

    def compile_nested(self, node: Any) -> bytes:
        if node.args.defaults or node.args.kwonlyargs:
            raise Unsupported("defaults of a nested function")
        name = f"{self.name}.{getattr(node, 'name', 'lambda')}"
        return Scope(self.pool, self.environment, node, self, name).compile((), {})

    def compile_comprehension(self, node: Any, kind: int, default: ast.expr | None = None) -> bytes:
        """Kind, sources with their targets and conditions, what each gives."""
        sources = []
        for one in node.generators:
            source = self.compile_expression(one.iter)
            # the names of the target have slots while the comprehension is lowered
            names = [part.id for part in ast.walk(one.target) if isinstance(part, ast.Name)]
            self.inner.append({name: self.add_slot() for name in names})
            sources.append(self.encode(source, self.compile_target(one.target), one.ifs))
        if isinstance(node, ast.DictComp):
            element = self.encode(node.key, node.value)
        else:
            element = self.compile_expression(node.elt)
        del self.inner[len(self.inner) - len(sources) :]
        preset = self.compile_expression(default) if kind == STOPS["next"] else b""
        return self.encode("COMPREHENSION", kind, encode_list(sources), element, preset)

    def compile_call(self, node: ast.Call) -> bytes:
        function, arguments = node.func, node.args
        name = getattr(function, "id", "")
        callee = self.find_value(function)
        if name in STOPS and arguments and isinstance(arguments[0], ast.GeneratorExp):
            default = arguments[1] if len(arguments) > 1 else None
            return self.compile_comprehension(arguments[0], STOPS[name], default)
        method = getattr(function, "attr", "")
        if getattr(callee, "__module__", "") == "re" and hasattr(re.Pattern, method):
            # a pattern is compiled here, once, and stands in the file as a constant
            source = compile(ast.Expression(arguments[0]), "<pattern>", "eval")
            fixed: Any = re.compile(eval(source, self.environment))
            function = ast.Attribute(ast.Constant(fixed), method)
            return self.compile_call(ast.Call(function, arguments[1:], node.keywords))
        if any(one.arg is None for one in node.keywords):
            raise Unsupported("** in a call")
        keywords = encode_list(
            [self.encode(self.pool.encode_place(one.arg), one.value) for one in node.keywords]
        )
        if isinstance(function, ast.Attribute) and callee is MISSING:
            name = self.pool.encode_attribute(function.attr)
            return self.encode("METHOD", function.value, name, arguments, keywords)
        return self.encode("CALL", function, arguments, keywords)


def list_assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, but not in comprehensions or inner functions."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = None
        elif isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            return
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        else:
            for one in ast.iter_child_nodes(node):
                visit(one)

    for statement in body:
        visit(statement)
    return list(names)
