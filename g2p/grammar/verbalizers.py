"""Verbalizers by the names that the say column calls them by: `{number:measure}`, or one behind the
other, `{year:year:plural}`.
"""

from collections.abc import Callable

import kokoro_ane.g2p.grammar.calendar as calendar
import kokoro_ane.g2p.grammar.names as names
import kokoro_ane.g2p.grammar.quantities as quantities
from kokoro_ane.g2p.grammar.context import Context

Verbalizer = Callable[[str, dict[str, str], Context], str]

VERBALIZERS: dict[str, Verbalizer] = {
    function.__name__: function
    for function in (
        quantities.alone,
        quantities.amount,
        quantities.cardinal,
        quantities.count,
        quantities.cups,
        quantities.daysof,
        quantities.denominator,
        quantities.digits,
        quantities.hoursof,
        quantities.kilo,
        quantities.many,
        quantities.measure,
        quantities.millions,
        quantities.minutes,
        quantities.minutesof,
        quantities.money,
        quantities.oh,
        quantities.ordinal,
        quantities.outof,
        quantities.over,
        quantities.pairs,
        quantities.partof,
        quantities.plural,
        quantities.roman,
        quantities.short,
        quantities.signed,
        quantities.single,
        quantities.spaced,
        quantities.span,
        quantities.stone,
        quantities.tablespoons,
        quantities.units,
        quantities.worth,
        quantities.year,
        calendar.clock,
        calendar.compactday,
        calendar.decade,
        calendar.dotday,
        calendar.half,
        calendar.isoday,
        calendar.military,
        calendar.month,
        calendar.monthcaps,
        calendar.nthday,
        calendar.shortday,
        calendar.yearmonth,
        names.acronym,
        names.ampersand,
        names.chess,
        names.code,
        names.compass,
        names.dollar,
        names.dotted,
        names.file,
        names.formula,
        names.groups,
        names.house,
        names.letters,
        names.loud,
        names.name,
        names.parted,
        names.phone,
        names.place,
        names.plurals,
        names.prefix,
        names.raw,
        names.route,
        names.titled,
        names.tollfree,
        names.web,
    )
}
VERBALIZERS |= {"spell": names.spelled, "zip": names.zip_code}
