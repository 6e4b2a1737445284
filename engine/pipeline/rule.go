package pipeline

import "slices"

// Branch leads from a step to another if all its conditions match the step's end.
type Branch struct {
	When        Status `json:"when,omitempty"` // status of the step or, for a session, of its team; empty for any
	ExitCode    *int   `json:"exit_code,omitempty"`
	Failed      *bool  `json:"failed,omitempty"`       // whether the step, or a tool call of it, failed
	TextMatches string `json:"text_matches,omitempty"` // an RE2 pattern; Ended.Matched has those that match

	To string `json:"to"`
}

// outcome describes the end of a step for static rules.
type outcome struct {
	status   Status
	team     string
	exitCode *int
	failed   bool
	matched  []int // the rules whose patterns match the step's text
}

func (e Ended) outcome() outcome {
	return outcome{status: e.Status, team: e.Team, exitCode: e.ExitCode, failed: e.Failed || e.Status == Failed, matched: e.Matched}
}

func (e Broke) outcome() outcome { return outcome{status: Failed, team: e.Team, failed: true} }

// next returns the destination of the first matching branch, or "" if none matches.
func (n *Node) next(o outcome) string {
	for i, b := range n.Next {
		if b.fits(i, o) {
			return b.To
		}
	}
	return ""
}

// fits reports whether the i-th branch of a rule applies. Only a branch that names the
// failure applies to a failed step.
func (b Branch) fits(i int, o outcome) bool {
	named := b.When != "" && (b.When == o.status || string(b.When) == o.team)
	switch {
	case b.When != "" && !named:
	case o.status == Failed && !named && (b.Failed == nil || !*b.Failed):
	case b.ExitCode != nil && (o.exitCode == nil || *b.ExitCode != *o.exitCode):
	case b.Failed != nil && *b.Failed != o.failed:
	case b.TextMatches != "" && !slices.Contains(o.matched, i):
	default:
		return true
	}
	return false
}
