"""The exceptions that a user of the reader may cause; each message is one line."""


class InputError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be right."""


class UtteranceTooLong(InputError):
    """More phonemes or frames than one call of a model takes: the input is valid and has to be
    split.
    """
