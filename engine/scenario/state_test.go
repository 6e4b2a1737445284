package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

func plan(steps int) Plan {
	p := Plan{Slug: "sign-in", Title: "Sign in"}
	for i := 1; i <= steps; i++ {
		p.Steps = append(p.Steps, StepRef{ID: fmt.Sprintf("%02d", i), Title: fmt.Sprint("Step ", i), File: fmt.Sprintf("%02d-step.md", i)})
	}
	return p
}

// drain returns the commands as text, after encoding and decoding the state as JSON.
func drain(t require.TestingT, s *State) (string, *Launch) {
	data, err := json.Marshal(s)
	require.NoError(t, err)
	*s = State{}
	require.NoError(t, json.Unmarshal(data, s))
	var said []string
	var launched *Launch
	for _, c := range s.Drain() {
		switch c := c.(type) {
		case Launch:
			text := "launch " + c.Step.ID
			if c.Previous != nil {
				text += " after " + c.Previous.ID + " " + string(c.Previous.Status)
			}
			if c.ResumeFrom != "" {
				text += " from " + c.ResumeFrom
			}
			said, launched = append(said, text), &c
		case Stop:
			said = append(said, "stop "+c.ID)
		case Record:
			said = append(said, "record")
		case Done:
			said = append(said, "done "+string(c.Status))
		}
	}
	return strings.Join(said, ", "), launched
}

func expect(t *testing.T, s *State, want string) string {
	t.Helper()
	got, launched := drain(t, s)
	require.Equal(t, want, got)
	if launched == nil {
		return ""
	}
	return launched.ID
}

var usage = llm.Usage{InputTokens: 5, ModelCalls: 1}

func passed(id string) Ended {
	return Ended{Launch: id, Result: Result{Status: Pass, Cost: usage}}
}

func statuses(s *State) string {
	var all []string
	for _, r := range s.Results {
		all = append(all, string(r.Status))
	}
	return strings.Join(all, " ")
}

func TestRun_passes(t *testing.T) {
	t.Parallel()
	s := New(plan(2), nil)
	require.Equal(t, Running, s.Status())
	id := expect(t, s, "record, launch 01")
	s.Step(passed(id))
	id = expect(t, s, "record, launch 02 after 01 pass")
	s.Step(passed(id))
	expect(t, s, "record, done pass")
	expect(t, s, "")
	require.Equal(t, int64(2), s.Usage.ModelCalls)
	require.NotNil(t, s.Results[0].EvidencePaths, "an empty list, not null")
}

// "The run stops at the first failure, later steps are skipped."
func TestRun_endsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	why := "no button"
	s := New(plan(3), nil)
	s.Step(passed(expect(t, s, "record, launch 01")))
	s.Step(Ended{
		Launch: expect(t, s, "record, launch 02 after 01 pass"), Result: Result{Status: Fail, Error: &why},
	})
	expect(t, s, "record, done fail")
	require.Equal(t, "pass fail skipped", statuses(s))
	require.Equal(t, "no button", *s.Results[1].Error)
}

func TestRun_withoutVerdict(t *testing.T) {
	t.Parallel()
	s := New(plan(2), nil)
	why := "no result within 600 s"
	s.Step(Ended{
		Launch: expect(t, s, "record, launch 01"), Result: Result{Status: Errored, Error: &why, Cost: usage},
	})
	expect(t, s, "record, done fail")
	require.Equal(t, "error skipped", statuses(s))
	require.Equal(t, "no result within 600 s", *s.Results[0].Error)
	require.Equal(t, usage, s.Results[0].Cost)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := New(plan(3), nil)
	s.Step(passed(expect(t, s, "record, launch 01")))
	id := expect(t, s, "record, launch 02 after 01 pass")
	s.Step(Cancel{})
	expect(t, s, "stop l2, record")
	s.Step(Suspended{Launch: id, Usage: usage})
	expect(t, s, "record, done cancelled")
	require.Equal(t, "pass cancelled skipped", statuses(s))
	require.Equal(t, int64(1), s.Results[1].Cost.ModelCalls, "the usage until the cancel counts")
	require.ErrorContains(t, s.Refuse(Pause{}), "over")
}

func TestPause_continuesTheStep(t *testing.T) {
	t.Parallel()
	s := New(plan(1), nil)
	id := expect(t, s, "record, launch 01")
	s.Step(Pause{})
	expect(t, s, "stop l1")
	s.Step(Suspended{Launch: id, Token: "tok", Usage: usage})
	expect(t, s, "")
	s.Step(Resume{})
	id = expect(t, s, "launch 01 from tok")
	s.Step(passed(id))
	expect(t, s, "record, done pass")
	require.Equal(t, int64(2), s.Results[0].Cost.ModelCalls)
}

// A step that is being stopped may report its end all the same. After the last one nothing is left to resume.
func TestPause_lastStepEnds(t *testing.T) {
	t.Parallel()
	s := New(plan(1), nil)
	id := expect(t, s, "record, launch 01")
	s.Step(Pause{})
	s.Step(passed(id))
	require.ErrorContains(t, s.Refuse(Resume{}), "over")
	expect(t, s, "record, done pass")
}

// The time before a pause counts toward the limits of the step and of the run.
func TestPause_timeBeforeItCounts(t *testing.T) {
	t.Parallel()
	p := plan(2)
	p.Limits.Seconds, p.Steps[0].Limits.Seconds, p.Steps[1].Limits.Seconds = 80, 60, 60
	s := New(p, nil)
	for _, seconds := range []int{50, 20} {
		_, l := drain(t, s)
		s.Step(Pause{})
		drain(t, s)
		s.Step(Suspended{Launch: l.ID, Token: "tok", DurationMS: 10_000})
		s.Step(Resume{})
		_, l = drain(t, s)
		require.Equal(t, seconds, l.Limits.Seconds, l.Step.ID)
		s.Step(Ended{Launch: l.ID, Result: Result{Status: Pass, DurationMS: 50_000}})
	}

	p = plan(1)
	p.Steps[0].Limits.Seconds = 60
	s = New(p, nil)
	_, l := drain(t, s)
	s.Step(Suspended{Launch: l.ID, Token: "tok", DurationMS: 60_000})
	expect(t, s, "record, done fail")
	require.Equal(t, "the step's limits.seconds of 60 is used up", *s.Results[0].Error)
}

func TestNew_resumes(t *testing.T) {
	t.Parallel()
	earlier := []Result{{ID: "01", Status: Pass, Cost: usage}, {ID: "02", Status: Fail}, {ID: "03", Status: Skipped}}
	s := New(plan(3), earlier)
	expect(t, s, "record, launch 02 after 01 pass")
	require.Equal(t, usage, s.Usage)

	s = New(plan(1), earlier[:1])
	expect(t, s, "record, done pass")
}

// With random events every run is completed: each step has a status, in order, steps run one at a
// time, and the status of the run follows from theirs.
func TestRun_completesAlways(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := plan(rapid.IntRange(1, 6).Draw(t, "steps"))
		first := rapid.IntRange(0, len(p.Steps)-1).Draw(t, "before")
		last := rapid.IntRange(first+1, len(p.Steps)).Draw(t, "after")
		p.Before, p.Steps, p.After = p.Steps[:first], p.Steps[first:last], p.Steps[last:]
		s := New(p, nil)
		var running *Launch
		done, ends := "", 0
		for range 100 {
			said, launched := drain(t, s)
			if launched != nil {
				require.Nil(t, running, "one step at a time")
				running = launched
			}
			if _, status, ok := strings.Cut(said, "done "); ok {
				done = status
				break
			}
			event := randomEvent(t, running)
			s.Step(event)
			switch event.(type) {
			case Ended:
				running = nil
				ends++
			case Suspended:
				running = nil
			}
		}
		if done == "" {
			return // paused and resumed all the time
		}
		require.Equal(t, string(s.Status()), done)
		require.Len(t, s.Results, len(p.All()))
		failed := false
		for i, r := range s.Results {
			require.Equal(t, p.All()[i].ID, r.ID)
			require.Equal(t, failed && r.Part != PartAfter, r.Status == Skipped, "after a failure exactly the steps outside Plan.After are skipped")
			failed = failed || r.Status != Pass
		}
		require.Equal(t, !failed, done == "pass")
		require.LessOrEqual(t, ends, len(p.All())+1)
	})
}

func randomEvent(t *rapid.T, running *Launch) Event {
	if running == nil {
		return rapid.SampledFrom([]Event{Resume{}, Resume{}, Cancel{}, Pause{}}).Draw(t, "asked")
	}
	why := "broken"
	return rapid.SampledFrom([]Event{
		passed(running.ID), passed(running.ID), passed(running.ID),
		Ended{Launch: running.ID, Result: Result{Status: Fail, Error: &why}},
		Ended{Launch: running.ID, Result: Result{Status: Errored, Error: &why}},
		Suspended{Launch: running.ID, Token: "t"},
		Pause{},
		Resume{},
		Cancel{},
		Ended{Launch: "l0", Result: Result{Status: Pass}},
	}).Draw(t, "event")
}

func TestPlan_refusesPaths(t *testing.T) {
	t.Parallel()
	require.NoError(t, plan(3).Check())
	for name, change := range map[string]func(*Plan){
		"slug":      func(p *Plan) { p.Slug = "../etc" },
		"no steps":  func(p *Plan) { p.Steps = nil },
		"100 steps": func(p *Plan) { p.Steps = plan(100).Steps },
		"id":        func(p *Plan) { p.Steps[0].ID = "1" },
		"id 00":     func(p *Plan) { p.Steps[0].ID, p.Steps[0].File = "00", "00-a.md" },
		"twice":     func(p *Plan) { p.Steps[1] = p.Steps[0] },
		"file":      func(p *Plan) { p.Steps[0].File = "../01-a.md" },
		"other's":   func(p *Plan) { p.Steps[0].File = "02-a.md" },
		"shared id": func(p *Plan) { p.Before = p.Steps[:1] },
		"only":      func(p *Plan) { p.Only = []string{"04"} },
		"browser":   func(p *Plan) { p.Browser = "shared" },
		"limits":    func(p *Plan) { p.Steps[0].Limits.CostUSD = -1 },
	} {
		p := plan(3)
		change(&p)
		require.Error(t, p.Check(), name)
	}
	require.NoError(t, CheckRunID("20261121-1200-abcd"))
	for _, id := range []string{"", ".", "..", "a/b", "-x", "a.b", strings.Repeat("a", 65)} {
		require.Error(t, CheckRunID(id), id)
	}
}

// A retried run keeps what its attempts recorded.
func TestNew_attempts(t *testing.T) {
	t.Parallel()
	why := "no button"
	failed := Result{ID: "01", Status: Fail, Error: &why, EvidencePaths: []string{"step-01/evidence/a.png"}, Cost: usage}
	failed.setAttempts(nil, false)
	s := New(plan(1), []Result{failed})
	launch := func() Launch {
		for _, c := range s.Drain() {
			if l, ok := c.(Launch); ok {
				return l
			}
		}
		return Launch{}
	}
	l := launch()
	require.Equal(t, [2]int{2, 2}, [2]int{l.Attempt, l.Since})
	s.Step(passed(l.ID))
	require.True(t, s.Results[0].Flaky)
	require.Equal(t, int64(2), s.Results[0].Cost.ModelCalls)

	// A cancelled attempt is not a failure. An attempt that continues its conversation also has its
	// evidence.
	failed.Status = Cancelled
	failed.setAttempts(nil, false)
	s = New(plan(1), []Result{failed})
	s.Rest, s.RestStep, s.Continues = "token", "01", "01"
	l = launch()
	require.Equal(t, [2]int{2, 1}, [2]int{l.Attempt, l.Since})
	require.Equal(t, "token", l.ResumeFrom)
	s.Step(passed(l.ID))
	require.False(t, s.Results[0].Flaky)
	since, last := s.Results[0].Span()
	require.Equal(t, [2]int{1, 2}, [2]int{since, last})
}

func TestSaid_isForTheRunningStep(t *testing.T) {
	t.Parallel()
	s := New(plan(2), nil)
	s.Step(Said{"for the first"})
	require.Equal(t, []Command{Keep{1, "for the first"}, Record{}, Ring{1}}, s.Drain()[:3])
	require.Zero(t, s.Launched.Heard)
	s.Step(Said{"for the first, too"})
	require.Equal(t, []Command{Keep{2, "for the first, too"}, Ring{2}}, s.Drain())
	s.Step(passed("l1"))
	s.Drain()
	require.Equal(t, 2, s.Launched.Heard, "the second step gets no message")
	require.Error(t, s.Refuse(Said{" "}))
	require.Error(t, s.Refuse(Said{strings.Repeat("x", maxMessage+1)}))
}

// A shared browser ends with its run, so that a retry repeats all steps.
func TestNew_sharedBrowser(t *testing.T) {
	t.Parallel()
	p := plan(2)
	p.Browser = BrowserRun
	s := New(p, []Result{{ID: "01", Status: Pass}, {ID: "02", Status: Fail}})
	expect(t, s, "record, launch 01")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	own := Limits{Seconds: 60, ModelCalls: 10, CostUSD: 0.5}
	rest, exhausted := Limits{Seconds: 100, ModelCalls: 12, CostUSD: 1}.remainingLimits(spent{50_000, llm.Usage{ModelCalls: 4, TotalUSD: new(0.75)}})
	require.Empty(t, exhausted)
	limits, tightened := own.withinRun(rest)
	require.Equal(t, Limits{Seconds: 50, ModelCalls: 8, CostUSD: 0.25}, limits)
	require.Equal(t, []string{"seconds", "model_calls", "cost_usd"}, tightened)
	limits, tightened = own.withinRun(Limits{})
	require.Equal(t, own, limits)
	require.Empty(t, tightened)
	_, exhausted = Limits{CostUSD: 1}.remainingLimits(spent{usage: llm.Usage{ModelCalls: 1, TotalUSD: new(1.5)}})
	require.Equal(t, "limits.cost_usd of 1", exhausted)
	require.Error(t, Limits{Seconds: -1}.checkLimits("limits"))
}
