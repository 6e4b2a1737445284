package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// begun returns a run whose first step is running.
func begun(change func(s *State)) *State {
	s := New(valid(), nil)
	s.Drain()
	if change != nil {
		change(s)
	}
	return s
}

// Requests that have no effect are refused with the reason.
func TestRefuse(t *testing.T) {
	t.Parallel()
	over := func(s *State) { s.Over = true }
	for name, tt := range map[string]struct {
		change func(s *State)
		event  Event
		want   string // empty if the request is accepted
	}{
		"pause":                     {nil, Pause{}, ""},
		"pause of a paused run":     {func(s *State) { s.Step(Pause{}) }, Pause{}, "the run is paused already"},
		"pause after the end":       {over, Pause{}, "the run is over"},
		"resume":                    {func(s *State) { s.Step(Pause{}) }, Resume{}, ""},
		"resume of a running one":   {nil, Resume{}, "the run is not paused"},
		"resume after the end":      {over, Resume{}, "the run is over"},
		"cancel":                    {nil, Cancel{DurationMS: 5}, ""},
		"cancel of a cancelled run": {func(s *State) { s.Step(Cancel{}) }, Cancel{}, "the run is cancelled already"},
		"cancel after the end":      {over, Cancel{}, "the run is over"},
		"say":                       {nil, Said{Text: "Look left."}, ""},
		"say nothing":               {nil, Said{Text: " \n\t"}, "the text is empty"},
		"the longest text":          {nil, Said{Text: strings.Repeat("x", 4096)}, ""},
		"a text too long":           {nil, Said{Text: strings.Repeat("x", 4097)}, "the text has 4097 bytes, at most 4096 are accepted"},
		"say after the end":         {over, Said{Text: "Look left."}, "the run is over"},
		"the last message":          {func(s *State) { s.Said = 99 }, Said{Text: "Look left."}, ""},
		"one message too many":      {func(s *State) { s.Said = 100 }, Said{Text: "Look left."}, "the run has 100 messages, the most that it accepts"},
		"the end of a step":         {over, Ended{Launch: "l1"}, ""},
		"the suspension of a step":  {over, Suspended{Launch: "l1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := begun(tt.change).Refuse(tt.event)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

// A message is recorded once, before it is announced.
func TestSaid_isKeptAndAnnounced(t *testing.T) {
	t.Parallel()
	s := begun(nil)
	s.Step(Said{Text: "Look left."})
	s.Step(Said{Text: "Then right."})
	require.Equal(t, []Command{Keep{1, "Look left."}, Keep{2, "Then right."}, Ring{2}}, s.Drain())
	require.Empty(t, s.Drain())
	s.Step(Pause{})
	s.Drain()
	s.Step(Said{Text: "Wait."})
	require.Equal(t, []Command{Keep{3, "Wait."}}, s.Drain(), "a step that stops reads no more")
}

// A stale event changes nothing.
func TestStep_staleEvents(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]Event{
		"an end":       Ended{Launch: "l9", Result: Result{Status: Pass}},
		"a suspension": Suspended{Launch: "l9", Token: "t"},
		"of no launch": Ended{Result: Result{Status: Fail}},
	} {
		s := begun(nil)
		before := *s
		s.Step(event)
		require.Equal(t, before, *s, name)
		require.Empty(t, s.Drain(), name)
	}
}

// A pass is flaky after a failure, but not after a cancellation.
func TestResult_setAttempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before []Attempt
		status Status
		flaky  bool
	}{
		"at once":               {nil, Pass, false},
		"after a failure":       {[]Attempt{{Status: Fail}}, Pass, true},
		"after an error":        {[]Attempt{{Status: Errored}}, Pass, true},
		"after a cancellation":  {[]Attempt{{Status: Cancelled}}, Pass, false},
		"after a failure, long": {[]Attempt{{Status: Fail}, {Status: Pass}}, Pass, true},
		"a second failure":      {[]Attempt{{Status: Fail}}, Fail, false},
	} {
		r := Result{Status: tt.status}
		r.setAttempts(tt.before, false)
		require.Equal(t, tt.flaky, r.Flaky, name)
		require.Len(t, r.Attempts, len(tt.before)+1, name)
	}
	first := Result{Status: Pass}
	first.setAttempts(nil, true)
	require.False(t, first.Attempts[0].Continues, "there is none to continue")
}

// The conversation of an attempt began with the first in its chain of continuations.
func TestResult_Span(t *testing.T) {
	t.Parallel()
	chain := func(continues ...bool) Result {
		r := Result{}
		for _, c := range continues {
			r.Attempts = append(r.Attempts, Attempt{Continues: c})
		}
		return r
	}
	for name, tt := range map[string]struct {
		result      Result
		since, last int
	}{
		"none":                {chain(), 1, 1},
		"one":                 {chain(false), 1, 1},
		"begun again":         {chain(false, false), 2, 2},
		"continued":           {chain(false, true), 1, 2},
		"continued twice":     {chain(false, false, true, true), 2, 4},
		"continued, then not": {chain(false, true, false), 3, 3},
	} {
		since, last := tt.result.Span()
		require.Equal(t, [2]int{tt.since, tt.last}, [2]int{since, last}, name)
	}
}

// New evidence belongs to the last attempt; earlier attempts keep theirs.
func TestResult_SetEvidence(t *testing.T) {
	t.Parallel()
	attempts := []Attempt{{EvidencePaths: []string{"a"}}, {EvidencePaths: []string{"b"}}}
	r := Result{Attempts: attempts}
	r.SetEvidence([]string{"c", "d"})
	require.Equal(t, []string{"c", "d"}, r.EvidencePaths)
	require.Equal(t, []string{"a"}, r.Attempts[0].EvidencePaths)
	require.Equal(t, []string{"c", "d"}, r.Attempts[1].EvidencePaths)
	require.Equal(t, []string{"b"}, attempts[1].EvidencePaths, "the result had a copy")
	none := Result{}
	none.SetEvidence([]string{"c"})
	require.Equal(t, []string{"c"}, none.EvidencePaths)
}
