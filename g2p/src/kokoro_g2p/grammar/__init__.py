"""The grammar: how written text is spoken, as rows of a table.

    from kokoro_g2p.grammar import grammar_of
    grammar_of("us").normalize("Dr. Smith paid $3.50.")

A row classifies a piece of text into a semiotic class and says how that class is verbalized
(Sproat and others 2001). `table.py` reads the rows, `starts.py` finds out what can begin a match,
`interpreter.py` walks over a text, `verbalizers.py` turns values into words.
"""

from kokoro_g2p.grammar.interpreter import Grammar
from kokoro_g2p.grammar.load import grammar_of

__all__ = ["Grammar", "grammar_of"]
