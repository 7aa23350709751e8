"""Languages read by rule, without espeak-ng at run time: Spanish and Italian.

    from g2p import G2P
    G2P.load("es").phonemize("Hola, ¿cómo estás?").phonemes

A language is its normalizer (grammar.py, normalize.py), its words (spanish.py, italian.py) and what the sentence changes (reader.py).
"""
