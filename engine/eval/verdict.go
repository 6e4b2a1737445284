package eval

import (
	"fmt"
	"math"
	"slices"
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

// rival returns the arm that the team has to beat: the vote that costs as many tokens, else
// the vote of first answers, else a single agent, else the first other arm.
func rival(order []string, arms []Arm) (string, bool) {
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

// judge returns the verdict with a sentence that explains it. The verdict is TooFew if the
// summary lacks the team or its rival.
func (s Summary) judge(arms []Arm) (Worth, string) {
	against, found := rival(s.Order, arms)
	if _, there := s.Arms[string(Team)]; !found || !there {
		return TooFew, "There is nothing to compare: the verdict needs the arm team and another one."
	}
	p := s.pair(string(Team), against)
	if p.N == 0 {
		return TooFew, "There is nothing to compare: no question has an outcome in both arms."
	}
	facts := s.facts(p)
	switch {
	case p.CI95[0] > 0:
		return WorthIt, fmt.Sprintf("Use the team, not %s: %s.", call(against), facts)
	case p.CI95[1] <= worthwhile:
		return NotWorthIt, fmt.Sprintf("Use %s: %s.", call(against), facts)
	}
	needed := "no difference was seen that more questions could confirm"
	if p.Needed != nil {
		needed = fmt.Sprintf("about %d questions would tell", *p.Needed)
	}
	return TooFew, fmt.Sprintf("%s cannot tell; until then use %s: %s; %s.", questions(p.N), call(against), facts, needed)
}

// pair returns the comparison of two arms, the first less the second.
func (s Summary) pair(a, b string) Pair {
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

// facts describes the first arm of a comparison relative to the second: the difference, the
// tokens and the interval.
func (s Summary) facts(p Pair) string {
	how := points(p.Difference) + " better"
	switch d := math.Round(100 * p.Difference); {
	case d == 0:
		how = "as good"
	case d < 0:
		how = points(-p.Difference) + " worse"
	}
	at := ""
	if b := s.Arms[p.B]; b.Tokens > 0 && b.N > 0 {
		a := s.Arms[p.A]
		ratio := float64(a.Tokens) / float64(a.N) / (float64(b.Tokens) / float64(b.N))
		at = fmt.Sprintf(" at %.1f × the tokens", ratio)
	}
	return fmt.Sprintf("the %s is %s%s, 95 %% from %s to %s", p.A, how, at, signed(p.CI95[0]), signed(p.CI95[1]))
}

// call returns the name of an arm in sentences.
func call(arm string) string {
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

func points(difference float64) string {
	n := math.Round(100 * difference)
	if n == 1 {
		return "1 point"
	}
	return fmt.Sprintf("%.0f points", n)
}

func questions(n int) string {
	if n == 1 {
		return "1 question"
	}
	return fmt.Sprintf("%d questions", n)
}

// signed formats a difference in points, such as −3 and +7.
func signed(difference float64) string {
	switch n := math.Round(100 * difference); {
	case n < 0:
		return fmt.Sprintf("−%.0f", -n)
	case n > 0:
		return fmt.Sprintf("+%.0f", n)
	}
	return "0"
}
