package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// The launch that resumes a suspended step reports that step's usage only if it was unknown. A
// launch that stored nothing does not replace the one before it.
func TestSuspended_unreported(t *testing.T) {
	t.Parallel()
	calls := llm.Usage{ModelCalls: 3}
	for name, tt := range map[string]struct {
		ends      []Suspended
		from      string
		uncounted bool
	}{
		"reported":             {[]Suspended{{Token: "t1", Usage: calls}}, "t1", false},
		"unknown":              {[]Suspended{{Token: "t1"}}, "t1", true},
		"reported, then not":   {[]Suspended{{Token: "t1", Usage: calls}, {Token: "t2"}}, "t2", true},
		"reported, then empty": {[]Suspended{{Token: "t1", Usage: calls}, {}}, "t1", false},
		"unknown, then empty":  {[]Suspended{{Token: "t1"}, {}}, "t1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(plan(1), nil)
			l := launched(t, s)
			for _, end := range tt.ends {
				l = suspend(t, s, l, end)
			}
			require.Equal(t, tt.from, l.ResumeFrom)
			require.Equal(t, tt.uncounted, l.Uncounted)
		})
	}
}

// launched returns the next launch.
func launched(t *testing.T, s *State) Launch {
	t.Helper()
	for _, c := range s.Drain() {
		if l, ok := c.(Launch); ok {
			return l
		}
	}
	require.Fail(t, "nothing was launched")
	return Launch{}
}

// suspend pauses and resumes a run, and returns the launch that resumes its step.
func suspend(t *testing.T, s *State, l Launch, end Suspended) Launch {
	t.Helper()
	s.Step(Pause{})
	s.Drain()
	end.Launch = l.ID
	s.Step(end)
	s.Step(Resume{})
	return launched(t, s)
}

// The beginning of an outage is kept over a suspension. A reply or the end of the step clears it.
func TestSuspended_outage(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_700_000_000, 0).UTC()
	s := New(plan(2), nil)
	l := suspend(t, s, launched(t, s), Suspended{Token: "t1", AwaySince: since})
	require.Equal(t, since, l.AwaySince)
	require.Zero(t, suspend(t, s, l, Suspended{Token: "t2"}).AwaySince)
	l = suspend(t, s, *s.Launched, Suspended{Token: "t3", AwaySince: since})
	require.Equal(t, since, l.AwaySince)
	s.Step(Ended{Launch: l.ID, Result: Result{Status: Pass}})
	require.Zero(t, launched(t, s).AwaySince)
}
