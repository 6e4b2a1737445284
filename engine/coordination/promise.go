// Rules 85 and 111: the promise that a calibration keeps.

package coordination

import (
	"fmt"
	"math"
	"slices"
)

// Calibration says how often decisions of a team were wrong, by the score of their support. It is
// made from questions whose right answers are known.
type Calibration struct {
	Team      string   `json:"team" doc:"Hash of the team without act_when."`
	From      string   `json:"from" doc:"The evaluation or the recorded answers that it was made from."`
	Questions int      `json:"questions" doc:"How many questions."`
	Parts     []string `json:"parts" doc:"The parts of the support whose mean is the score."`
	Levels    []Level  `json:"levels" doc:"How many decisions have at least a score, and how many of them were wrong; the highest score comes first."`
}

// Level counts the decisions with at least a score.
type Level struct {
	Score float64 `json:"score" doc:"The score, from 0 to 1."`
	Acted int     `json:"acted" doc:"Decisions with this score or a higher one."`
	Wrong int     `json:"wrong" doc:"Those of them that were wrong."`
}

// Judged is a decision of a question whose right answer is known. Support is nil if it has none.
type Judged struct {
	Winner  string
	Support *Support
	Right   bool
}

var supportParts = []string{"share", "agreement", "spread", "confidence", "checks"}

// part returns a part of a support; nil if it is unknown.
func (s *Support) part(name string) *float64 {
	if s == nil {
		return nil
	}
	return map[string]*float64{"share": &s.Share, "agreement": s.Agreement, "spread": s.Spread, "confidence": s.Confidence, "checks": s.Checks}[name]
}

// score returns the mean of parts, from 0 to 1, or -1 if one of them is unknown.
func (s *Support) score(parts []string) float64 {
	sum := 0.0
	for _, name := range parts {
		known := s.part(name)
		if known == nil {
			return -1
		}
		sum += max(0, *known)
	}
	return sum / float64(max(len(parts), 1))
}

// Calibrate counts decisions by score, to a hundredth. The parts of the score are those that
// every support has.
func Calibrate(decisions []Judged) Calibration {
	c := Calibration{Questions: len(decisions), Levels: []Level{}}
	for _, name := range supportParts {
		if !slices.ContainsFunc(decisions, func(d Judged) bool { return d.Support != nil && d.Support.part(name) == nil }) {
			c.Parts = append(c.Parts, name)
		}
	}
	var acted, wrong [101]int
	for _, d := range decisions {
		if score := d.Support.score(c.Parts); score >= 0 {
			at := min(int(100*score+scoreTolerance), 100)
			acted[at]++
			if !d.Right {
				wrong[at]++
			}
		}
	}
	sum := Level{}
	for at := 100; at >= 0; at-- {
		if acted[at] > 0 {
			sum = Level{Score: float64(at) / 100, Acted: sum.Acted + acted[at], Wrong: sum.Wrong + wrong[at]}
			c.Levels = append(c.Levels, sum)
		}
	}
	return c
}

// scoreTolerance is far below a hundredth, and above the error of a sum of floating-point numbers.
const scoreTolerance = 1e-6

// Threshold is the least score with which a session acts on its decision.
type Threshold struct {
	Parts []string `json:"parts"`
	Least float64  `json:"least"`
}

// Admits reports whether a support has the score. Without a threshold every support has it.
func (t *Threshold) Admits(s *Support) bool {
	return t == nil || s.score(t.Parts) >= t.Least-scoreTolerance/100
}

// Promise returns the lowest threshold that keeps the share of wrong decisions at most at wrong, with
// a confidence of 95 % over the drawing of the questions. The error says how many more questions
// are needed, or that no number suffices; the threshold then admits nothing.
//
// Thresholds are tested from the highest score to lower ones, until the first whose exact upper bound
// is above wrong. Those with too few decisions are passed over, a number that depends on wrong and
// the number of questions alone. The confidence therefore needs no correction for the number of
// tests, provided that decisions with a lower score are not right more often.
func (c Calibration) Promise(wrong float64) (*Threshold, error) {
	first := max(LeastDecisions(0, wrong), min(LeastDecisions(allowedFirst, wrong), c.Questions/2))
	kept := &Threshold{Parts: c.Parts, Least: 2}
	for _, l := range c.Levels {
		if l.Acted < first {
			continue
		}
		if upperBound(l.Wrong, l.Acted) > wrong {
			break
		}
		kept.Least = l.Score
	}
	if kept.Least > 1 {
		return kept, c.explainRefusal(wrong, first)
	}
	return kept, nil
}

const allowedFirst = 6 // wrong decisions of the first tested threshold, if there are enough questions

// LeastDecisions returns the least number of decisions of which k wrong ones keep a promise.
func LeastDecisions(k int, wrong float64) int {
	n := k + 1
	for step := 1 << 20; step > 0; step /= 2 {
		if upperBound(k, n+step-1) > wrong {
			n += step
		}
	}
	return n
}

// explainRefusal names the number of questions that would do if the shares stay as they are.
func (c Calibration) explainRefusal(wrong float64, first int) error {
	least, share := Level{}, 1.0
	for _, l := range c.Levels {
		if of := float64(l.Wrong) / float64(l.Acted); l.Acted >= min(first, c.Questions/4) && of < share {
			least, share = l, of
		}
	}
	switch {
	case least.Acted == 0:
		return fmt.Errorf("%d questions are too few: a promise of %g needs at least %d decisions with a support; calibrate with more", c.Questions, wrong, LeastDecisions(0, wrong))
	case share < 0.95*wrong:
		acted := least.Acted
		for acted <= least.Acted || upperBound(int(math.Ceil(share*float64(acted))), acted) > wrong {
			acted += acted/10 + 1
		}
		n := c.Questions * acted / least.Acted
		return fmt.Errorf("%d questions are too few: of the %d decisions with the most support %d are wrong, which promises %g only from about %d questions on, %d more",
			c.Questions, least.Acted, least.Wrong, wrong, n, n-c.Questions)
	}
	return fmt.Errorf("no threshold holds, and more questions would not help: of the %d decisions with the most support %.1f %% are wrong; promise more than %.2f, or give the team checks, confidence or more members",
		least.Acted, 100*share, upperBound(least.Wrong, least.Acted))
}

// upperBound returns the upper end of the exact one-sided 95 % interval of a share of which k of n
// were seen, by the method of Clopper and Pearson.
func upperBound(k, n int) float64 {
	if k >= n {
		return 1
	}
	low, high := float64(k)/float64(n), 1.0
	for range 40 {
		if p := (low + high) / 2; atMost(k, n, p) > 0.05 {
			low = p
		} else {
			high = p
		}
	}
	return high
}

// atMost returns the probability of at most k < n wrong decisions of n, each wrong with probability p.
func atMost(k, n int, p float64) float64 {
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	term := math.Exp(lgamma(n) - lgamma(k) - lgamma(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	sum := term
	for i := k; i > 0 && term > 1e-12*sum; i-- {
		term *= float64(i) / float64(n-i+1) * (1 - p) / p
		sum += term
	}
	return sum
}
