package scenario

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"conclave/engine/llm"
)

// Limits bound a step or a run. A zero field sets no limit.
type Limits struct {
	Seconds    int     `json:"seconds,omitempty" yaml:"seconds,omitempty"` // seconds of work, pauses excluded
	ModelCalls int     `json:"model_calls,omitempty" yaml:"model_calls,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty" yaml:"cost_usd,omitempty"`
}

// check refuses negative and infinite limits.
func (l Limits) check(at string) error {
	if l.Seconds < 0 || l.ModelCalls < 0 || l.CostUSD < 0 || math.IsNaN(l.CostUSD) || math.IsInf(l.CostUSD, 0) {
		return fmt.Errorf("%s has a negative or infinite limit; it takes seconds, model_calls and cost_usd above 0, or null for none", at)
	}
	return nil
}

// spent is the used part of limits.
type spent struct {
	milliseconds int64
	usage        llm.Usage
}

// rest returns the remaining limits, and the name of a limit that is used up, if any.
func (l Limits) rest(s spent) (rest Limits, exhausted string) {
	if l.Seconds > 0 {
		if rest.Seconds = l.Seconds - int(s.milliseconds/1000); rest.Seconds <= 0 {
			return rest, fmt.Sprintf("limits.seconds of %d", l.Seconds)
		}
	}
	if l.ModelCalls > 0 {
		if rest.ModelCalls = l.ModelCalls - int(s.usage.ModelCalls); rest.ModelCalls <= 0 {
			return rest, fmt.Sprintf("limits.model_calls of %d", l.ModelCalls)
		}
	}
	if l.CostUSD > 0 {
		if rest.CostUSD = l.CostUSD - s.usage.AtLeastUSD(); rest.CostUSD <= 0 {
			return rest, fmt.Sprintf("limits.cost_usd of %g", l.CostUSD)
		}
	}
	return rest, ""
}

// within returns the lower of a step's limits and the run's remaining limits, and the names
// of those that come from the run.
func (l Limits) within(run Limits) (limits Limits, tightened []string) {
	limits = l
	if run.Seconds > 0 && Bound(l.Seconds, run.Seconds) == run.Seconds {
		limits.Seconds, tightened = run.Seconds, append(tightened, "seconds")
	}
	if run.ModelCalls > 0 && Bound(l.ModelCalls, run.ModelCalls) == run.ModelCalls {
		limits.ModelCalls, tightened = run.ModelCalls, append(tightened, "model_calls")
	}
	if run.CostUSD > 0 && (l.CostUSD == 0 || run.CostUSD < l.CostUSD) {
		limits.CostUSD, tightened = run.CostUSD, append(tightened, "cost_usd")
	}
	return limits, tightened
}

// Bound returns the lower of two limits; 0 is no limit.
func Bound(a, b int) int {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// Rest returns a note for the error of a launch that had only the run's remaining limits. It
// is empty if the step's own limits were lower.
func (l Launch) Rest() string {
	if len(l.Tightened) == 0 {
		return ""
	}
	return " (the step had the rest of the run's limits: " + strings.Join(l.Tightened, ", ") + ")"
}
