"""One function of g2p as bytes: names resolved to slots or constants, statements and expressions in
the order a port reads them.

    lowered(function, pool)     # name, arguments, slots, body

`pool` gives constants their places (pipeline/rule_program.py, which says how the file is written).
A generator becomes the list of what it yields; `try`, `with`, `**` and imports of whole modules are
refused.
"""

import ast
import builtins
import functools
import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

(
    CONST,
    LOCAL,
    OUTER,
    ATTR,
    INDEX,
    SLICE,
    CALL,
    METHOD,
    BINARY,
    COMPARE,
    AND,
    OR,
    NOT,
    IF_ELSE,
    BUILD,
    BUILD_DICT,
    JOIN,
    COMPREHENSION,
    CLOSURE,
    NEGATIVE,
    STARRED,
    NOTHING,
) = range(22)
(
    EXPRESSION,
    ASSIGN,
    AUGMENT,
    RETURN,
    IF,
    FOR,
    WHILE,
    BREAK,
    CONTINUE,
    RAISE,
    YIELD,
    YIELD_FROM,
    PASS,
) = range(13)
OPERATORS, COMPARISONS = (
    [getattr(ast, name) for name in names.split()]
    for names in (
        "Add Sub Mult Div FloorDiv Mod BitOr BitAnd",
        "Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn",
    )
)
KINDS = {ast.ListComp: 0, ast.GeneratorExp: 0, ast.SetComp: 1, ast.DictComp: 2}
STOPS = {"any": 3, "all": 4, "next": 5}  # a comprehension that may end early
BUILDS = {ast.Tuple: 0, ast.List: 1, ast.Set: 2}


class Unsupported(Exception):
    """What is lowered has no form in the file."""


def number(value: int) -> bytes:
    """LEB128 of a natural number."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def op(*parts: int | bytes) -> bytes:
    """Single bytes and sequences, one behind the other."""
    return b"".join(part if isinstance(part, bytes) else bytes((part,)) for part in parts)


def signed(value: int) -> bytes:
    return number(value << 1 if value >= 0 else (-value << 1) - 1)


def string(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return number(len(content)) + content


def listed(items: "list[bytes]") -> bytes:
    return number(len(items)) + b"".join(items)


@functools.cache
def tree(path: str) -> dict[tuple[str, int], ast.FunctionDef | ast.Lambda]:
    """Functions of a file by name and first line."""
    nodes = ast.walk(ast.parse(Path(path).read_text(encoding="utf-8")))
    made = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda))
    starts = {
        node: min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        for node in made
    }
    return {(getattr(node, "name", "<lambda>"), line): node for node, line in starts.items()}


def lowered(function: types.FunctionType, pool: Any) -> bytes:
    """Of a function of a module."""
    code = function.__code__
    node = tree(code.co_filename)[function.__name__, code.co_firstlineno]
    if code.co_freevars:
        raise Unsupported("free variables")
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return Scope(
        pool, function.__globals__, node, None, function.__qualname__, function.__kwdefaults__ or {}
    ).code(defaults)


@dataclass
class Scope:
    """One function on its way: its names' slots, and its code."""

    pool: Any  # pipeline/rule_program.py's Pool
    environment: dict[str, Any]
    node: Any
    parent: "Scope | None"
    name: str
    named: dict[str, Any]  # defaults of arguments that are given by name

    def __post_init__(self) -> None:
        node, self.environment = self.node, dict(self.environment)
        signature = node.args
        self.plain = [one.arg for one in (*signature.posonlyargs, *signature.args)]
        self.only = [one.arg for one in signature.kwonlyargs]
        if signature.kwarg:
            raise Unsupported("**")
        # arguments come first, in the order in which a call fills them
        self.slots: dict[str, int] = {}
        for one in (*self.plain, *self.only, *([signature.vararg.arg] if signature.vararg else ())):
            self.slots[one] = len(self.slots)
        self.count = len(self.slots)
        self.inner: list[dict[str, int]] = []  # of comprehensions, the nearest last
        # then every name that the body assigns, wherever it first does
        for name in stored(node.body if isinstance(node.body, list) else []):
            if name not in self.slots:
                self.slots[name] = self.slot()

    def slot(self) -> int:
        self.count += 1
        return self.count - 1

    def code(self, defaults: tuple[Any, ...]) -> bytes:
        """Name, kinds of arguments with the last ones' defaults, slots, whether it yields, body."""
        body = self.node.body if isinstance(self.node.body, list) else [ast.Return(self.node.body)]
        lowered_body = self.op(body)
        plain = len(defaults) - len(self.named)
        head = self.pool.all(self.plain) + self.pool.all(defaults[:plain])
        head += listed(
            [
                self.pool.at(one)
                + (b"\1" + self.pool.at(self.named[one]) if one in self.named else b"\0")
                for one in self.only
            ]
        )
        yields = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in walked(self.node))
        return (
            string(self.name)
            + number(1)
            + head
            + bytes((self.node.args.vararg is not None, yields))
            + number(self.count)
            + lowered_body
        )

    def op(self, *parts: "int | bytes | ast.expr | list[Any] | None") -> bytes:
        """`op`, with expressions and lists of them or of statements in its place."""
        return op(*map(self.lowered, parts))

    def lowered(self, part: Any) -> int | bytes:
        if isinstance(part, list):
            lowered = (
                self.statement(one) if isinstance(one, ast.stmt) else self.expression(one)
                for one in part
            )
            return listed([one for one in lowered if one])
        return self.expression(part) if part is None or isinstance(part, ast.expr) else part

    def statement(self, node: ast.stmt) -> bytes:
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass() | ast.Assert() | ast.AnnAssign(value=None):
                return b""
            case ast.Expr(ast.Yield(value)):
                return self.op(YIELD, value)
            case ast.Expr(ast.YieldFrom(value)):
                return self.op(YIELD_FROM, value)
            case ast.Expr(value):
                return self.op(EXPRESSION, value)
            case ast.Assign(targets, value):
                return self.op(ASSIGN, value, listed([self.target(one) for one in targets]))
            case ast.AnnAssign(target, _, value):
                return self.op(ASSIGN, value, listed([self.target(target)]))
            case ast.AugAssign(target, operator, value) if type(operator) in OPERATORS:
                return self.op(AUGMENT, OPERATORS.index(type(operator)), self.target(target), value)
            case ast.Return(value):
                return self.op(RETURN, value)
            case ast.If(test, body, other):
                return self.op(IF, test, body, other)
            case ast.For(target, source, body, other):
                return self.op(FOR, source, self.target(target), body, other)
            case ast.While(test, body, []):
                return self.op(WHILE, test, body)
            case ast.Break():
                return self.op(BREAK)
            case ast.Continue():
                return self.op(CONTINUE)
            case ast.Raise(error, _):
                return self.op(
                    RAISE, error.args[0] if isinstance(error, ast.Call) and error.args else None
                )
            case ast.ImportFrom(module, names, 0):
                for one in names:
                    self.environment[one.asname or one.name] = getattr(
                        __import__(module or "", fromlist=[one.name]), one.name
                    )
                return b""
            case ast.FunctionDef():
                return self.op(
                    ASSIGN, CLOSURE, self.nested(node), listed([self.target(ast.Name(node.name))])
                )
        raise Unsupported(f"{type(node).__name__} in line {node.lineno}")

    def target(self, node: ast.expr) -> bytes:
        match node:
            case ast.Name(name):
                place = self.place(name)
                if place is None or place[0]:
                    raise Unsupported(f"{name} is not this function's own")
                return self.op(LOCAL, number(place[1]))
            case ast.Attribute(value, name):
                return self.op(ATTR, value, self.pool.at(name))
            case ast.Subscript(value, ast.Slice()):
                raise Unsupported("a slice is assigned")
            case ast.Subscript(value, key):
                return self.op(INDEX, value, key)
            case ast.Starred(value):
                return self.op(STARRED, self.target(value))
            case ast.Tuple(parts) | ast.List(parts):
                return self.op(BUILD, listed([self.target(one) for one in parts]))
        raise Unsupported(f"{type(node).__name__} is assigned")

    def value_of(self, node: ast.expr) -> Any:
        """What a name, or a module's attribute, is now; MISSING where only the running function
        knows.
        """
        if isinstance(node, ast.Name):
            if self.place(node.id) is not None:
                return MISSING
            return self.environment.get(node.id, getattr(builtins, node.id, MISSING))
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            if isinstance(owner, types.ModuleType) or (
                isinstance(owner, type) and not owner.__module__.startswith("kokoro_ane")
            ):
                return getattr(owner, node.attr)
        return MISSING

    def place(self, name: str) -> tuple[int, int] | None:
        """How many functions out, and the slot."""
        depth, scope = 0, self  # type: tuple[int, Scope | None]
        while scope is not None:
            for inner in reversed(scope.inner):
                if name in inner:
                    return depth, inner[name]
            if name in scope.slots:
                return depth, scope.slots[name]
            depth, scope = depth + 1, scope.parent
        return None

    def expression(self, node: ast.expr | None) -> bytes:
        if node is None:
            return self.op(CONST, self.pool.at(None))
        value = self.value_of(node)
        if value is not MISSING and not isinstance(value, types.ModuleType):
            return self.op(CONST, self.pool.at(value))
        match node:
            case ast.Constant(value):
                return self.op(CONST, self.pool.at(value))
            case ast.Name(name):
                place = self.place(name)
                if place is None:
                    raise Unsupported(f"the name {name}")
                return (
                    self.op(LOCAL, number(place[1]))
                    if not place[0]
                    else self.op(OUTER, number(place[0]), number(place[1]))
                )
            case ast.Attribute(value, name):
                return self.op(ATTR, value, self.pool.attribute(name))
            case ast.Subscript(value, ast.Slice(lower, upper, step)):
                return self.op(
                    SLICE, b"".join(self.expression(one) for one in (value, lower, upper, step))
                )
            case ast.Subscript(value, key):
                return self.op(INDEX, value, key)
            case ast.Call():
                return self.call(node)
            case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
                return self.op(BINARY, OPERATORS.index(type(operator)), left, right)
            case ast.Compare(left, operators, others):
                pairs = [
                    self.op(COMPARISONS.index(type(how)), one)
                    for how, one in zip(operators, others, strict=True)
                ]
                return self.op(COMPARE, left, listed(pairs))
            case ast.BoolOp(operator, values):
                return self.op(AND if isinstance(operator, ast.And) else OR, values)
            case ast.UnaryOp(ast.Not(), value):
                return self.op(NOT, value)
            case ast.UnaryOp(ast.USub(), value):
                return self.op(NEGATIVE, value)
            case ast.IfExp(test, body, other):
                return self.op(IF_ELSE, test, body, other)
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return self.op(BUILD, BUILDS[type(node)], parts)
            case ast.Starred(value):
                return self.op(STARRED, value)
            case ast.Dict(keys, values):
                starred = [
                    self.op(STARRED) if key is None else self.expression(key) for key in keys
                ]
                return self.op(
                    BUILD_DICT,
                    listed(
                        [
                            key + self.expression(one)
                            for key, one in zip(starred, values, strict=True)
                        ]
                    ),
                )
            case ast.JoinedStr(parts):
                return self.op(JOIN, listed([self.part(one) for one in parts]))
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self.comprehension(node, KINDS[type(node)])
            case ast.Lambda():
                return self.op(CLOSURE, self.nested(node))
        raise Unsupported(f"{type(node).__name__} in line {node.lineno}")

    def part(self, node: ast.expr) -> bytes:
        """Of an f-string: an expression and its format."""
        if isinstance(node, ast.FormattedValue):
            spec = ""
            if isinstance(node.format_spec, ast.JoinedStr):
                spec = node.format_spec.values[0].value  # type: ignore[attr-defined]
            return self.expression(node.value) + string(
                "r" if node.conversion == ord("r") else spec
            )
        return self.expression(node) + string("")

    def nested(self, node: Any) -> bytes:
        names = [one.arg for one in node.args.kwonlyargs]
        if node.args.defaults or names:
            raise Unsupported("defaults of a nested function")
        inner = Scope(
            self.pool,
            self.environment,
            node,
            self,
            f"{self.name}.{getattr(node, 'name', 'lambda')}",
            {},
        )
        return inner.code(())

    def comprehension(self, node: Any, kind: int, default: ast.expr | None = None) -> bytes:
        """Kind, sources with their targets and conditions, what each gives."""
        sources = []
        for one in node.generators:
            source = self.expression(one.iter)
            self.inner.append({name: self.slot() for name in targets(one.target)})
            sources.append(
                source
                + self.target(one.target)
                + listed([self.expression(test) for test in one.ifs])
            )
        element = (
            self.expression(node.key) + self.expression(node.value)
            if isinstance(node, ast.DictComp)
            else self.expression(node.elt)
        )
        del self.inner[len(self.inner) - len(sources) :]
        return self.op(
            COMPREHENSION,
            kind,
            listed(sources),
            element,
            self.expression(default) if kind == STOPS["next"] else b"",
        )

    def call(self, node: ast.Call) -> bytes:
        function = node.func
        name, callee = getattr(function, "id", ""), self.value_of(function)
        if name in STOPS and node.args and isinstance(node.args[0], ast.GeneratorExp):
            return self.comprehension(
                node.args[0], STOPS[name], node.args[1] if len(node.args) > 1 else None
            )
        if (
            getattr(callee, "__module__", "") == "re"
            and isinstance(function, ast.Attribute)
            and hasattr(re.Pattern, function.attr)
        ):
            try:
                # a pattern is compiled here, once, and stands in the file as a constant
                fixed = re.compile(
                    eval(
                        compile(ast.Expression(node.args[0]), "<pattern>", "eval"), self.environment
                    )
                )
            except NameError as problem:
                raise Unsupported(f"a pattern that is made where it runs, {problem}") from None
            compiled = ast.Constant(fixed)  # type: ignore[arg-type]
            inner = ast.Call(ast.Attribute(compiled, function.attr), node.args[1:], node.keywords)
            return self.call(inner)
        if any(one.arg is None for one in node.keywords):
            raise Unsupported("** in a call")
        named = listed([self.op(self.pool.at(one.arg), one.value) for one in node.keywords])
        if isinstance(function, ast.Attribute) and callee is MISSING:
            name = self.pool.attribute(function.attr)
            return self.op(METHOD, function.value, name, node.args, named)
        return self.op(CALL, function, node.args, named)


def targets(node: ast.expr) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def walked(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, and in none within it."""
    for one in ast.iter_child_nodes(node):
        yield one
        if not isinstance(one, ast.FunctionDef | ast.Lambda):
            yield from walked(one)


def stored(body: list[ast.stmt]) -> list[str]:
    """Names that statements assign; those of comprehensions are theirs."""
    names: dict[str, None] = {}

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = None
            return
        if isinstance(
            node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
        ):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        for one in ast.iter_child_nodes(node):
            look(one)

    for statement in body:
        look(statement)
    return list(names)
