"""The cheapest way to cut a run of text into listed words: the best path through a lattice of all
words that stand in it.

    Lattice({"一个": "5", "个人": "9", "人": "3"}, {}).cut("一个人")  # ["一个", "人"]

An entry holds the readings of a word: each is a cost, a kind where words have kinds, and what is
said. The costs of a path and those of the kinds that meet in it are added. A run of the length n
takes at most n * `longest` look-ups.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FREE, FIRST_KIND = "!", 0x1400  # the cost 0 where words have no kinds, and the first kind
LONGEST = 8  # characters of a listed word
UNLISTED = 58  # the cost of a character that jieba counts 30 times among 60 million

Reading = tuple[int, int, int, str]  # where a word ends, its cost and kind, what is said
Found = tuple[str, int, str]  # a word of the path, its kind, what is said


@dataclass(frozen=True)
class Lattice:
    """Responsibility: the words of a run."""

    listed: Mapping[str, str]  # word to its entry
    user: Mapping[str, str]  # words of the user, which cost nothing
    unlisted: int = UNLISTED  # the cost of a character of a word that is not listed
    form: "re.Pattern[str]" = re.compile("(.)()(.*)")  # a reading of an entry
    free: str = FREE  # the cost 0
    # a row for each kind, of what it costs that a kind follows it; kind 0 is the end of a run
    joints: Sequence[str] = (FREE,)
    usual: int = 0  # the kind of words that are not listed
    whole: "re.Pattern[str]" = re.compile(".", re.DOTALL)  # what is one word if it is not listed
    longest: int = LONGEST

    def list_readings(self, run: str, start: int) -> list[Reading]:
        """All words that begin at `start`."""
        # Text that no list has is one word up to where the script's pattern ends.
        match = self.whole.match(run, start)
        assert match is not None
        found: list[Reading] = []
        # Unlisted text costs by its length, so that listed words win wherever they can.
        if match[0] not in self.user and match[0] not in self.listed:
            found.append((match.end(), self.unlisted * len(match[0]), self.usual, ""))
        for stop in range(start + 1, min(len(run), start + self.longest) + 1):
            word = run[start:stop]
            # A word of the user costs nothing, and the list's readings of it do not count.
            if word in self.user:
                found.append((stop, 0, self.usual, ""))
                continue
            entry = self.listed.get(word)
            if entry is not None:
                # Costs and kinds are stored as characters, whose code points count from a base.
                for cost, kind, said in self.form.findall(entry):
                    number = ord(kind) - FIRST_KIND if kind else 0
                    found.append((stop, ord(cost) - ord(self.free), number, said))
        return found

    def find_path(self, run: str, others: Mapping[int, Reading] | None = None) -> list[Found]:
        """The words of the cheapest path; of equal ones that of longer words. `others`: a word
        more at some places.
        """
        length = len(run)
        # firsts[i]: by the kind of the first word of run[i:] the least cost, where that word ends,
        # and what is said; rests[i]: the least cost of run[i:] behind a kind
        firsts: list[dict[int, Reading]] = [{} for _ in run]
        firsts.append({0: (length, 0, 0, "")})
        rests: list[dict[int, int]] = [{} for _ in firsts]
        # From the end backwards: the costs behind every stop are known by then.
        for start in range(length - 1, -1, -1):
            here = firsts[start]
            found = self.list_readings(run, start)
            if others and start in others:
                found.append(others[start])
            for stop, cost, kind, said in found:
                # Only the kinds that meet here are worked out, each once for a place.
                if kind not in rests[stop]:
                    _, rests[stop][kind] = self.choose_next(kind, firsts[stop])
                total = cost + rests[stop][kind]
                # Stops ascend, so that <= lets the longest of equally cheap words win.
                if kind not in here or total <= here[kind][1]:
                    here[kind] = (stop, total, kind, said)
        words: list[Found] = []
        # Kind 0 is the border of a run, at its beginning as at its end.
        start, kind = 0, 0
        while start < length:
            kind, _ = self.choose_next(kind, firsts[start])
            stop, _, _, said = firsts[start][kind]
            words.append((run[start:stop], kind, said))
            start = stop
        return words

    def choose_next(self, kind: int, firsts: Mapping[int, Reading]) -> tuple[int, int]:
        """The kind that best follows a kind, and the cost from there to the end."""
        row = self.joints[kind]
        best, lowest = -1, 0
        for other, reading in firsts.items():
            total = ord(row[other]) - ord(self.free) + reading[1]
            if best < 0 or total < lowest:
                best, lowest = other, total
        return best, lowest

    def cut(self, run: str) -> list[str]:
        """The words of the cheapest path alone."""
        return [word for word, _, _ in self.find_path(run)]
