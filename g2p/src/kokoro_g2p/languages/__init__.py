"""Languages read by rule, without espeak-ng at run time: Spanish and Italian.
`G2P.load("es").phonemize("Hola.").phonemes`
"""
