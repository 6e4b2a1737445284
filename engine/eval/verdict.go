package eval

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Worth says whether a team is worth its tokens.
type Worth string

// The verdicts.
const (
	WorthIt    Worth = "worth_it"     // better than its rival: the interval lies above 0
	NotWorthIt Worth = "not_worth_it" // better by at most the points that are worthwhile: the interval ends there
	TooFew     Worth = "too_few"      // the questions are too few to tell
)

// worthwhile is the smallest gain for which a team may be worth its tokens.
const worthwhile = 0.05

// findRival returns the arm that the team has to beat: the vote that costs as many tokens, else
// the vote of first answers, else a single agent, else the first other arm.
func findRival(order []string, arms []Arm) (string, bool) {
	for _, suits := range []func(Arm) bool{
		Arm.Match,
		func(a Arm) bool { return a.Kind == FirstVote },
		func(a Arm) bool { return a.Kind == Single },
		func(a Arm) bool { return !a.Decides() },
	} {
		for _, arm := range arms {
			if suits(arm) && slices.Contains(order, arm.Name) {
				return arm.Name, true
			}
		}
	}
	return "", false
}

// judgeTeam returns the verdict with a sentence that explains it. The verdict is TooFew if the
// summary lacks the team or its rival.
func (s Summary) judgeTeam(arms []Arm) (Worth, string) {
	against, found := findRival(s.Order, arms)
	if _, there := s.Arms[string(Team)]; !found || !there {
		return TooFew, "There is nothing to compare: the verdict needs the arm team and another one."
	}
	p := s.findPair(string(Team), against)
	if p.N == 0 {
		return TooFew, "There is nothing to compare: no question has an outcome in both arms."
	}
	facts := s.describePair(p)
	switch {
	case p.CI95[0] > 0:
		return WorthIt, fmt.Sprintf("Use the team, not %s: %s.", armPhrase(against), facts)
	case p.CI95[1] <= worthwhile:
		return NotWorthIt, fmt.Sprintf("Use %s: %s.", armPhrase(against), facts)
	}
	needed := "no difference was seen that more questions could confirm"
	if p.Needed != nil {
		needed = fmt.Sprintf("about %d questions would tell", *p.Needed)
	}
	return TooFew, fmt.Sprintf("%s cannot tell; until then use %s: %s; %s.", formatQuestions(p.N), armPhrase(against), facts, needed)
}

// findPair returns the comparison of two arms, the first less the second.
func (s Summary) findPair(a, b string) Pair {
	for _, p := range s.Pairs {
		switch {
		case p.A == a && p.B == b:
			return p
		case p.A == b && p.B == a:
			p.A, p.B, p.Difference = a, b, -p.Difference
			p.CI95[0], p.CI95[1] = -p.CI95[1], -p.CI95[0]
			return p
		}
	}
	return Pair{A: a, B: b}
}

// describePair describes the first arm of a comparison relative to the second: the difference, the
// tokens and the interval.
func (s Summary) describePair(p Pair) string {
	how := formatPoints(p.Difference) + " better"
	switch d := math.Round(100 * p.Difference); {
	case d == 0:
		how = "as good"
	case d < 0:
		how = formatPoints(-p.Difference) + " worse"
	}
	at := ""
	if b := s.Arms[p.B]; b.Tokens > 0 && b.N > 0 {
		a := s.Arms[p.A]
		ratio := float64(a.Tokens) / float64(a.N) / (float64(b.Tokens) / float64(b.N))
		at = fmt.Sprintf(" at %.1f × the tokens", ratio)
	}
	return fmt.Sprintf("the %s is %s%s, 95 %% from %s to %s", p.A, how, at, formatSigned(p.CI95[0]), formatSigned(p.CI95[1]))
}

func armPhrase(arm string) string {
	switch {
	case arm == string(Single):
		return "one agent"
	case arm == string(FirstVote):
		return "a vote of the team's first answers"
	case arm == string(Majority)+":match":
		return "a vote of as many samples as the team's tokens buy"
	case arm == string(Plain):
		return "a bare completion"
	}
	if k, majority := strings.CutPrefix(arm, string(Majority)+":"); majority {
		return "a vote of " + k + " samples"
	}
	return arm
}

func formatPoints(difference float64) string {
	n := math.Round(100 * difference)
	if n == 1 {
		return "1 point"
	}
	return fmt.Sprintf("%.0f points", n)
}

func formatQuestions(n int) string {
	if n == 1 {
		return "1 question"
	}
	return fmt.Sprintf("%d questions", n)
}

func formatSigned(difference float64) string {
	switch n := math.Round(100 * difference); {
	case n < 0:
		return fmt.Sprintf("−%.0f", -n)
	case n > 0:
		return fmt.Sprintf("+%.0f", n)
	}
	return "0"
}

// Kind is how an arm finds an answer.
type Kind string

// The kinds of arms.
const (
	Single    Kind = "single"     // the first answer of one agent of the team
	Majority  Kind = "majority"   // the vote of first answers
	FirstVote Kind = "first-vote" // the vote of the team's own first answers
	Plain     Kind = "plain"      // a bare completion
	Team      Kind = "team"       // the team's decision
)

// Arm is one way to answer the questions.
type Arm struct {
	Name  string // name as it was given
	Kind  Kind
	K     int    // samples of a majority; 0 for as many as the team's tokens buy
	Other string // file of another team; empty for the evaluated one
}

// DefaultArms are the arms of an evaluation that names none.
const DefaultArms = "single,first-vote,majority:match,team"

// MostSamples bounds the samples of a majority.
const MostSamples = 26

// Match reports whether the number of samples is chosen to cost as many tokens as the team.
func (a Arm) Match() bool { return a.Kind == Majority && a.K == 0 }

// Decides reports whether the arm is the evaluated team.
func (a Arm) Decides() bool { return a.Kind == Team && a.Other == "" }

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

// Slug returns the name of the arm in the IDs of its sessions.
func (a Arm) Slug() string {
	name := a.Name
	if a.Other != "" {
		name = "team-" + strings.TrimSuffix(filepath.Base(a.Other), filepath.Ext(a.Other))
	}
	return strings.Trim(unsafe.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// ParseArms reads a list of arms.
func ParseArms(list string) ([]Arm, error) {
	var arms []Arm
	for name := range strings.SplitSeq(list, ",") {
		arm, err := parseArm(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(arms, func(a Arm) bool { return a.Slug() == arm.Slug() }) {
			return nil, fmt.Errorf("the arm %s is named twice, or its file has the name of another one's; leave one out, or rename the file", arm.Name)
		}
		arms = append(arms, arm)
	}
	if slices.ContainsFunc(arms, Arm.Match) && !slices.ContainsFunc(arms, Arm.Decides) {
		return nil, fmt.Errorf("majority:match takes as many samples as the tokens of the team buy; add the arm team, or give a number such as majority:5")
	}
	return arms, nil
}

func parseArm(name string) (Arm, error) {
	arm := Arm{Name: name}
	kind, rest, samples := strings.Cut(name, ":")
	before, file, other := strings.Cut(name, "=")
	switch {
	case samples && Kind(kind) == Majority:
		arm.Kind = Majority
		if rest == "match" {
			return arm, nil
		}
		k, err := strconv.Atoi(rest)
		if err != nil || k < 1 || k > MostSamples {
			return arm, fmt.Errorf("the arm %s: give majority:match or a number of samples from 1 to %d, such as majority:5", name, MostSamples)
		}
		arm.K = k
	case other && Kind(before) == Team && file != "":
		arm.Kind, arm.Other = Team, file
	case slices.Contains([]Kind{Single, FirstVote, Plain, Team}, Kind(name)):
		arm.Kind = Kind(name)
	default:
		return arm, fmt.Errorf("no arm %q; use single, majority:K, majority:match, first-vote, plain, team and team=FILE, separated by commas", name)
	}
	return arm, nil
}
