"""A second implementation of `conclave eval replay` for tables of letters, by other means: no code, no rules of the
protocol and no sessions are shared. Standard input has {"data": FILE, "first": N or 0, "teams": [[member, …], …]}; a
line of standard output has the figures of a team whose members vote for their own answers.

{"data": FILE, "promises": [{"members": […], "wrong": share, "draws": NAME}, …], "draws": {NAME: [[question, …], …]}}
asks for promises that are calibrated on drawn questions: a line has, by drawing, the least score in hundredths or null,
how many of the other questions the team acts on, and how many of these it decides wrongly. {"data": FILE, "skilled":
[[member, …], …], "sample": [question, …], "rest": [question, …]} asks for the worst and the best order of a team on the
rest, without skills and with those of the sample. With {"programs": [{"texts": […], "passed": [[verdicts by author] by
member]}, …]} a line is the member that running the members' tests decides for."""
import collections
import fractions
import functools
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


def orders(size):
    """Returns the orders of a team that are compared: all of them up to four members, else each member first."""
    every = range(size)
    if size > 4:
        return [(i, *(j for j in every if j != i)) for i in every]
    return list(itertools.permutations(every))


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
        by_order = [self.count(self.order(o)) / n for o in orders(len(every))]
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
            if len(every) > 2 and self.pair("", "", self.member(i), self.member(best))["ci95"][1] <= -0.00005:  # as it is reported, in four decimals
                smaller["leave " + names[i] + " out"] = self.order([j for j in every if j != i])
        first = {"list " + names[i] + " first": self.order([i, *(j for j in every if j != i)]) for i in every}
        advised = []
        for ways in ({"use one agent: " + names[best]: self.member(best)}, smaller, first):
            if ways:
                words = max(ways, key=lambda w: self.count(ways[w]))
                if self.pair("", "", team, ways[words])["ci95"][1] <= -0.00005:
                    advised.append(words)
        return advised


def by_skill(letters, skills):
    """Returns the letter for which a team with skills decides: of the most frequent ones that of the most skilled."""
    given = [x for x in letters if x != "-"]
    if not given:
        return None
    most = max(given.count(x) for x in given)
    return max((skill, -i, x) for i, (x, skill) in enumerate(zip(letters, skills)) if x != "-" and given.count(x) == most)[2]


def skilled(column, names, sample, rest):
    """Returns the accuracy on the rest in the worst and the best order: without skills, and with those of the sample."""
    right = column["answer"]
    skills = [sum(column[name][q] == right[q] for q in sample) for name in names]
    patterns = collections.Counter((*(column[name][q] for name in names), right[q]) for q in rest)
    without, having = [], []
    for order in orders(len(names)):
        of = lambda row: [row[i] for i in order]
        without.append(sum(n for row, n in patterns.items() if decide(of(row)) == row[-1]) / len(rest))
        having.append(sum(n for row, n in patterns.items() if by_skill(of(row), of(skills)) == row[-1]) / len(rest))
    return {"without": [min(without), max(without)], "with": [min(having), max(having)]}


def parts(letters):
    """Returns the parts of a decision's support: the share of votes, and, where others answered too, how many of them
    agree and how far the letter is ahead of the next one."""
    given = collections.Counter(x for x in letters if x != "-")
    n, winner = sum(given.values()), decide(letters)
    if n == 0:
        return None
    own = given.pop(winner)
    share = fractions.Fraction(own, n)
    if n == 1:
        return (share, None, None)
    return (share, fractions.Fraction(own - 1, n - 1), share - fractions.Fraction(max(given.values(), default=0), n))


@functools.cache
def keeps(wrong, k, n):
    """Reports whether k wrong decisions of n would be rare, at most one time in 20, if more than the share were wrong."""
    if k >= n:
        return False
    return math.fsum(math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(wrong) + (n - i) * math.log(1 - wrong)) for i in range(k + 1)) <= 0.05


@functools.cache
def fewest(wrong, k):
    return next(n for n in itertools.count(k + 1) if keeps(wrong, k, n))


def promise(classes, drawn, wrong):
    """Returns the least score in hundredths with which a promise is kept, and the scores of all classes of decisions."""
    n = sum(drawn.values())
    supports = [support for (support, _) in drawn if support]
    used = [i for i in range(3) if all(support[i] is not None for support in supports)]
    scores = {}
    for support, right in classes:
        values = [support[i] for i in used] if support else [None]
        scores[support, right] = -1 if None in values else int(100 * sum(max(0, x) for x in values) / len(values))
    first, least = max(fewest(wrong, 0), min(fewest(wrong, 6), n // 2)), None
    for score in sorted({scores[c] for c in drawn if scores[c] >= 0}, reverse=True):
        acted = sum(k for c, k in drawn.items() if scores[c] >= score)
        failed = sum(k for c, k in drawn.items() if scores[c] >= score and not c[1])
        if acted < first:
            continue
        if not keeps(wrong, failed, acted):
            break
        least = score
    return least, scores


def promises(column, members, wrong, draws):
    """Returns, by drawing, the least score, on how many other questions the team acts, and how many of these are wrong."""
    rows = list(zip(*(column[name] for name in members), column["answer"]))
    judged = [(parts(row[:-1]), decide(row[:-1]) == row[-1]) for row in rows]
    every, outcomes = collections.Counter(judged), []
    for draw in draws:
        drawn = collections.Counter(judged[q] for q in draw)
        least, scores = promise(every, drawn, wrong)
        acts = [(c, n - drawn[c]) for c, n in every.items() if least is not None and scores[c] >= least]
        outcomes.append([least, sum(n for _, n in acts), sum(n for c, n in acts if not c[1])])
    return outcomes


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
        rows = [line.rstrip("\n").split("\t") for line in table][: given.get("first") or None]
    column = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    for names in given.get("skilled", []):
        print(json.dumps(skilled(column, names, given["sample"], given["rest"])))
    for p in given.get("promises", []):
        print(json.dumps(promises(column, p["members"], p["wrong"], given["draws"][p["draws"]])))
    for names in given.get("teams", []):
        patterns = collections.Counter(zip(*(column[name] for name in names), column["answer"]))
        print(json.dumps(Team(names, patterns).figures()))


main()
