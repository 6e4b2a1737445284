package scenario

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// valid returns a plan with steps in every part.
func valid() Plan {
	return Plan{
		Slug: "buy", Title: "Buy a thing",
		Steps:  []StepRef{{ID: "01", File: "01-open.md"}, {ID: "02", File: "02-pay.md"}},
		Before: []StepRef{{ID: "10", File: "10-fill.md"}},
		After:  []StepRef{{ID: "20", File: "20-clean.md"}},
	}
}

func TestPlan_Check(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(p *Plan)
		want   string // empty if the plan is valid
	}{
		"as it is":                  {func(*Plan) {}, ""},
		"no slug":                   {func(p *Plan) { p.Slug = "" }, `"" is not a slug: it takes up to 64 lower-case letters and digits, in words joined by hyphens, such as sign-in`},
		"a slug with a path":        {func(p *Plan) { p.Slug = "../buy" }, "is not a slug"},
		"no steps":                  {func(p *Plan) { p.Steps = nil }, "scenario buy has 2 steps; it takes 1 to 99, before and after included"},
		"too many steps":            {func(p *Plan) { p.Steps = make([]StepRef, 98) }, "scenario buy has 100 steps"},
		"an id of one digit":        {func(p *Plan) { p.Steps[1].ID = "2" }, `steps[1].id "2" of scenario buy: it takes two digits, from 01 to 99`},
		"the id 00":                 {func(p *Plan) { p.Steps[1].ID = "00" }, "it takes two digits"},
		"an id of another step":     {func(p *Plan) { p.Steps[1] = p.Steps[0] }, "steps[1].id 01 of scenario buy occurs twice; before, steps and after share their ids"},
		"an id of another part":     {func(p *Plan) { p.After[0] = StepRef{ID: "10", File: "10-x.md"} }, "after[0].id 10 of scenario buy occurs twice"},
		"a file of another step":    {func(p *Plan) { p.Steps[1].File = "01-pay.md" }, `steps[1].file "01-pay.md" of scenario buy: it takes a name such as 02-open.md, in the folder steps`},
		"a file in another folder":  {func(p *Plan) { p.Before[0].File = "x/10-fill.md" }, "before[0].file"},
		"a file without a name":     {func(p *Plan) { p.Steps[0].File = "01.md" }, "steps[0].file"},
		"a file in upper case":      {func(p *Plan) { p.Steps[0].File = "01-Open.md" }, "steps[0].file"},
		"a browser for each step":   {func(p *Plan) { p.Browser = "step" }, ""},
		"a browser for a run":       {func(p *Plan) { p.Browser = "run" }, ""},
		"another browser":           {func(p *Plan) { p.Browser = "tab" }, `browser "tab" of scenario buy: it takes step or run`},
		"tell of lost tools":        {func(p *Plan) { p.OnLostTools = "tell" }, ""},
		"begin again":               {func(p *Plan) { p.OnLostTools = "begin_again" }, ""},
		"another policy":            {func(p *Plan) { p.OnLostTools = "cry" }, `on_lost_tools "cry" of scenario buy: it takes begin_again or tell`},
		"limits of the run":         {func(p *Plan) { p.Limits = Limits{Seconds: 1, ModelCalls: 1, CostUSD: 0.5} }, ""},
		"negative seconds":          {func(p *Plan) { p.Limits.Seconds = -1 }, "scenario buy: limits has a negative or infinite limit; it takes seconds, model_calls and cost_usd above 0, or null for none"},
		"infinite dollars":          {func(p *Plan) { p.Limits.CostUSD = math.Inf(1) }, "limits has a negative or infinite limit"},
		"dollars that are none":     {func(p *Plan) { p.Limits.CostUSD = math.NaN() }, "limits has a negative or infinite limit"},
		"negative calls of a step":  {func(p *Plan) { p.Steps[1].Limits.ModelCalls = -1 }, "scenario buy: steps[1].limits has a negative or infinite limit"},
		"one step alone":            {func(p *Plan) { p.Only = []string{"02"} }, ""},
		"an unknown step alone":     {func(p *Plan) { p.Only = []string{"03"} }, `scenario buy has no step "03" to run alone; its steps are 01, 02`},
		"a step of before alone":    {func(p *Plan) { p.Only = []string{"10"} }, `has no step "10" to run alone`},
		"two mistakes at once":      {func(p *Plan) { p.Steps[0].ID, p.Only = "1", []string{"07"} }, "has no step \"07\" to run alone"},
		"the largest number of all": {func(p *Plan) { p.Steps = stepsFrom(1, 9); p.Before, p.After = stepsFrom(10, 54), stepsFrom(55, 99) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valid()
			tt.change(&p)
			if tt.want == "" {
				require.NoError(t, p.Check())
				return
			}
			require.ErrorContains(t, p.Check(), tt.want)
		})
	}
}

// stepsFrom returns steps with these ids.
func stepsFrom(from, to int) (steps []StepRef) {
	for n := from; n <= to; n++ {
		id := fmt.Sprintf("%02d", n)
		steps = append(steps, StepRef{ID: id, File: id + "-do.md"})
	}
	return steps
}

func TestCheckSlug(t *testing.T) {
	t.Parallel()
	for _, slug := range []string{"a", "sign-in", "2fa", "a-1-b", strings.Repeat("a", 64)} {
		require.NoError(t, CheckSlug(slug), slug)
	}
	for _, slug := range []string{"", "-a", "a-", "a--b", "A", "a_b", "a b", "ä", "a/b", "..", strings.Repeat("a", 65)} {
		require.Error(t, CheckSlug(slug), slug)
	}
	require.Less(t, len(CheckSlug(strings.Repeat("a", 5000)).Error()), 300)
}

func TestCheckRunID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"r", "20261121-153012-k3f9", "A_b-c", strings.Repeat("r", 64)} {
		require.NoError(t, CheckRunID(id), id)
	}
	for _, id := range []string{"", "-r", "_r", "a/b", "a.b", "r\n", strings.Repeat("r", 65)} {
		require.ErrorContains(t, CheckRunID(id), "is not a run id", id)
	}
}

func TestIsStepFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"01-open.md": true, "99-a-b.md": true, "00-open.md": false, "1-open.md": false, "01-open.txt": false, "01-.md": false, "01-open.md~": false, ".01-open.md": false,
	} {
		require.Equal(t, want, IsStepFile(name), name)
	}
}

// The parts run in the order before, steps, after.
func TestPlan_parts(t *testing.T) {
	t.Parallel()
	p := valid()
	var order []string
	for i, s := range p.All() {
		order = append(order, s.ID+string(p.partAt(i)))
	}
	require.Equal(t, []string{"10before", "01", "02", "20after"}, order)
	require.True(t, p.Selects("01"))
	p.Only = []string{"02"}
	require.False(t, p.Selects("01"))
	require.True(t, p.Selects("02"))
}

// Rest returns the remaining limits of a run, and names the limit that is used up.
func TestLimits_rest(t *testing.T) {
	t.Parallel()
	usd := func(d float64) llm.Usage { return llm.Usage{ModelCalls: 4, TotalUSD: &d} }
	all := Limits{Seconds: 60, ModelCalls: 10, CostUSD: 2}
	for name, tt := range map[string]struct {
		limits    Limits
		spent     spent
		rest      Limits
		exhausted string
	}{
		"nothing spent":            {all, spent{}, all, ""},
		"some spent":               {all, spent{milliseconds: 20_500, usage: usd(0.5)}, Limits{Seconds: 40, ModelCalls: 6, CostUSD: 1.5}, ""},
		"no limits":                {Limits{}, spent{milliseconds: 1e9, usage: usd(100)}, Limits{}, ""},
		"the last second":          {all, spent{milliseconds: 59_999}, Limits{Seconds: 1, ModelCalls: 10, CostUSD: 2}, ""},
		"no second":                {all, spent{milliseconds: 60_000}, Limits{}, "limits.seconds of 60"},
		"no call":                  {Limits{ModelCalls: 4}, spent{usage: usd(0)}, Limits{}, "limits.model_calls of 4"},
		"more calls than the rest": {Limits{ModelCalls: 3}, spent{usage: usd(0)}, Limits{ModelCalls: -1}, "limits.model_calls of 3"},
		"no dollar":                {Limits{CostUSD: 0.5}, spent{usage: usd(0.5)}, Limits{}, "limits.cost_usd of 0.5"},
		"time comes first":         {all, spent{milliseconds: 61_000, usage: usd(9)}, Limits{Seconds: -1}, "limits.seconds of 60"},
	} {
		rest, exhausted := tt.limits.remainingLimits(tt.spent)
		require.Equal(t, tt.rest, rest, name)
		require.Equal(t, tt.exhausted, exhausted, name)
	}
}

// A step gets the lower of its own limits and the rest of the run's.
func TestLimits_within(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		own, run, want Limits
		tightened      []string
	}{
		"none":              {Limits{}, Limits{}, Limits{}, nil},
		"its own":           {Limits{Seconds: 5, ModelCalls: 5, CostUSD: 5}, Limits{}, Limits{Seconds: 5, ModelCalls: 5, CostUSD: 5}, nil},
		"the run's":         {Limits{}, Limits{Seconds: 5, ModelCalls: 6, CostUSD: 7}, Limits{Seconds: 5, ModelCalls: 6, CostUSD: 7}, []string{"seconds", "model_calls", "cost_usd"}},
		"its own, tighter":  {Limits{Seconds: 1, ModelCalls: 1, CostUSD: 1}, Limits{Seconds: 5, ModelCalls: 5, CostUSD: 5}, Limits{Seconds: 1, ModelCalls: 1, CostUSD: 1}, nil},
		"the run's, equal":  {Limits{Seconds: 5, CostUSD: 5}, Limits{Seconds: 5, CostUSD: 5}, Limits{Seconds: 5, CostUSD: 5}, []string{"seconds"}},
		"one of each":       {Limits{Seconds: 9, ModelCalls: 1}, Limits{Seconds: 2, ModelCalls: 8}, Limits{Seconds: 2, ModelCalls: 1}, []string{"seconds"}},
		"dollars of a cent": {Limits{CostUSD: 1}, Limits{CostUSD: 0.01}, Limits{CostUSD: 0.01}, []string{"cost_usd"}},
	} {
		got, tightened := tt.own.withinRun(tt.run)
		require.Equal(t, tt.want, got, name)
		require.Equal(t, tt.tightened, tightened, name)
	}
	require.Empty(t, Launch{}.Rest())
	require.Equal(t, " (the step had the rest of the run's limits: seconds, cost_usd)", Launch{Tightened: []string{"seconds", "cost_usd"}}.Rest())
	for want, pair := range map[int][2]int{0: {0, 0}, 3: {3, 0}, 4: {0, 4}, 1: {1, 2}, 2: {7, 2}} {
		require.Equal(t, want, Bound(pair[0], pair[1]))
	}
}
