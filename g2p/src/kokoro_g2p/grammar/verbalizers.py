"""Verbalizers by the names that the say column calls them by: `{number:measure}`, or one behind the
other, `{year:year:plural}`. They are the functions of three files that take a value and a context.
"""

from collections.abc import Callable
from functools import partial

import kokoro_g2p.grammar.calendar as calendar
import kokoro_g2p.grammar.names as names
import kokoro_g2p.grammar.quantities as quantities
from kokoro_g2p.grammar.table import SlotContext

Verbalizer = Callable[[str, SlotContext], str]
MODULES = (quantities, calendar, names)
NAMES = ("value", "context")

# A function is a verbalizer if its first arguments are a value and a context.
VERBALIZERS: dict[str, Verbalizer] = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if getattr(getattr(function, "__code__", None), "co_varnames", ())[:2] == NAMES
}
VERBALIZERS |= {
    # {number:cupsof} and the like: an amount and its name
    f"{name}sof": partial(quantities.name_amount_of, name)
    for name in ("cup", "tablespoon", "minute", "hour", "day", "shilling")
}
