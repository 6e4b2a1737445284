"""A second implementation of `conclave eval replay` for tables of letters, by other means: no code, no rules of the
protocol and no sessions are shared. Standard input has {"data": FILE, "first": N or 0, "teams": [[member, …], …]}; a
line of standard output has the figures of a team whose members vote for their own answers. With {"programs": [{"texts":
[…], "passed": [[verdicts by author] by member]}, …]} a line is the member that running the members' tests decides for."""
import collections
import gzip
import itertools
import json
import math
import sys

Z = 1.959963984540054  # of 95 %, two-sided
POWER = 0.8416212335729143  # of 80 %


def decide(letters):
    """Returns the letter for which a team decides: of the most frequent ones that of the member listed first."""
    given = [x for x in letters if x != "-"]
    if not given:
        return None
    most = max(given.count(x) for x in given)
    return next(x for x in given if given.count(x) == most)


def steps(letters):
    """Everybody answers or fails, and those who answered vote, twice if there is no majority."""
    given = [x for x in letters if x != "-"]
    if not given:
        return len(letters)
    majority = max(given.count(x) for x in given) * 2 > len(given)
    return len(letters) + len(given) * (1 if majority else 2)


def support(letters):
    given = [x for x in letters if x != "-"]
    return given.count(decide(letters)) / len(given) if given else 0


def wilson(k, n):
    p = k / n
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return [max(0, middle - half), min(1, middle + half)]


def mcnemar(b, c):
    n, k = b + c, min(b, c)
    if n > 900:  # beyond the range of floating-point numbers
        logs = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2) for i in range(k + 1)]
        return min(1, 2 * math.fsum(map(math.exp, logs)))
    return min(1, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n)


class Team:
    """A team with the number of questions of each pattern of letters."""

    def __init__(self, names, rows):
        self.names, self.rows, self.n = names, rows, sum(rows.values())

    def count(self, holds):
        return sum(n for row, n in self.rows.items() if holds(row[:-1], row[-1]))

    def member(self, i):
        return lambda letters, right: letters[i] == right

    def order(self, order):
        return lambda letters, right: decide([letters[i] for i in order]) == right

    def pair(self, a, b, left, right):
        won = self.count(lambda x, y: left(x, y) and not right(x, y))
        lost = self.count(lambda x, y: right(x, y) and not left(x, y))
        m, s, q = self.n + 2, won - lost, won + lost
        half = Z * math.sqrt((q + 1 - s * s / m) / (m * m))
        mean, discordant = s / self.n, q / self.n
        needed = None
        if s:
            root = Z * math.sqrt(discordant) + POWER * math.sqrt(max(0, discordant - mean * mean))
            needed = math.ceil(root * root / (mean * mean))
        return {"a": a, "b": b, "difference": mean, "ci95": [s / m - half, s / m + half], "p": mcnemar(won, lost), "questions_needed": needed, "n": self.n}

    def accuracy(self, right):
        k = self.count(right)
        return {"accuracy": k / self.n, "ci95": wilson(k, self.n)}

    def figures(self):
        n, every = self.n, range(len(self.names))
        team = self.order(every)
        members = [{"name": name, **self.accuracy(self.member(i))} for i, name in enumerate(self.names)]
        accuracies = [m["accuracy"] for m in members]
        pairs, both = [], []
        for i in every:
            pairs.append(self.pair("team", self.names[i], team, self.member(i)))
            for j in range(i):
                pairs.append(self.pair(self.names[i], self.names[j], self.member(i), self.member(j)))
                share = self.count(lambda x, y: x[i] != y and x[j] != y) / n
                both.append({"a": self.names[j], "b": self.names[i], "share": share})
        alike = lambda x, y: "-" not in x and len(set(x)) == 1
        unanimous = self.count(alike)
        orders = itertools.permutations(every)
        if len(every) > 4:
            orders = [[i, *(j for j in every if j != i)] for i in every]
        by_order = [self.count(self.order(o)) / n for o in orders]
        curve = []
        for least in sorted({round(support(row[:-1]), 4) for row in self.rows}):
            acts = lambda x, y: decide(x) is not None and round(support(x), 4) >= least
            acted = self.count(acts)
            curve.append({"min_support": least, "acted": acted / n, "right": self.count(lambda x, y: acts(x, y) and team(x, y)) / acted if acted else 0})
        return {
            "questions": n, "members": members, "team": self.accuracy(team), "pairs": pairs, "co_failure": both,
            "ceiling": self.count(lambda x, y: y in x) / n, "spread": max(accuracies) - min(accuracies),
            "unanimous": {"share": unanimous / n, "right": self.count(lambda x, y: alike(x, y) and x[0] == y) / unanimous if unanimous else 0},
            "order": {"best": max(by_order), "worst": min(by_order)},
            "calls": sum(steps(row[:-1]) * k for row, k in self.rows.items()) / n, "curve": curve, "advised": self.advised(),
        }

    def advised(self):
        """Returns the members that advice is about: the one to use alone, to leave out, and to list first."""
        every, names = list(range(len(self.names))), self.names
        if self.n < 100:
            return []
        best = max(every, key=lambda i: self.count(self.member(i)))
        team = self.order(every)
        smaller = {}
        for i in every:
            if len(every) > 2 and self.pair("", "", self.member(i), self.member(best))["ci95"][1] < 0:
                smaller["leave " + names[i] + " out"] = self.order([j for j in every if j != i])
        first = {"list " + names[i] + " first": self.order([i, *(j for j in every if j != i)]) for i in every}
        advised = []
        for ways in ({"use one agent: " + names[best]: self.member(best)}, smaller, first):
            if ways:
                words = max(ways, key=lambda w: self.count(ways[w]))
                if self.pair("", "", team, ways[words])["ci95"][1] < 0:
                    advised.append(words)
        return advised


def decide_programs(texts, passed):
    """Returns the member whose program no other one beats: with higher voices, and not outvoted unless others than the two say so."""
    every, million = range(len(texts)), 10**6
    useful = [[any(passed[m][a][i] == "1" for m in every) for i in range(len(passed[0][a]))] for a in every]
    votes = [texts.count(text) for text in texts]

    def voice(m, a):
        known = [x == "1" for x, used in zip(passed[m][a], useful[a]) if used]
        return sum(known) * million // len(known) * passed.count(passed[m])

    def beats(a, b):
        ahead = {c: voice(a, c) - voice(b, c) for c in every if any(useful[c])}
        total, independent = sum(ahead.values()), sum(v for c, v in ahead.items() if c not in (a, b))
        return total > 0 and (independent > 0 or total >= (votes[b] - votes[a]) * million)

    return max(every, key=lambda m: (not any(beats(o, m) for o in every), votes[m], -m))


def main():
    given = json.load(sys.stdin)
    for team in given.get("programs", []):
        print(decide_programs(**team))
    if "programs" in given:
        return
    with gzip.open(given["data"], "rt") as table:
        header = table.readline().rstrip("\n").split("\t")
        rows = [line.rstrip("\n").split("\t") for line in table][: given["first"] or None]
    column = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    for names in given["teams"]:
        patterns = collections.Counter(zip(*(column[name] for name in names), column["answer"]))
        print(json.dumps(Team(names, patterns).figures()))


main()
