package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// launchOf returns the launch among the commands.
func launchOf(t *testing.T, commands []Command) Launch {
	t.Helper()
	for _, c := range commands {
		if l, ok := c.(Launch); ok {
			return l
		}
	}
	require.Fail(t, "nothing is launched", "%v", commands)
	return Launch{}
}

// Rule 15.
func TestReopened(t *testing.T) {
	t.Parallel()
	used := llm.Usage{ModelCalls: 1}
	for name, test := range map[string]struct {
		kind      Kind
		events    []Event
		resume    string
		uncounted bool
		why       string // empty: it goes on
	}{
		"failed":                 {Agent, []Event{Broke{Launch: "l1", Number: 1, Token: "r-l1", Usage: used}}, "r-l1", false, ""},
		"failed team":            {Session, []Event{Broke{Launch: "l1", Number: 1, Token: "r-l1", Usage: used}}, "", false, ""},
		"cancelled":              {Agent, []Event{Cancel{}, Suspended{Launch: "l1", Token: "r-l1", Usage: used}}, "r-l1", false, ""},
		"cancelled, no usage":    {Agent, []Event{Cancel{}, Suspended{Launch: "l1", Token: "r-l1"}}, "r-l1", true, ""},
		"cancelled, no report":   {Agent, []Event{Cancel{}}, "r-l1", true, ""},
		"cancelled, ended after": {Agent, []Event{Cancel{}, Ended{Launch: "l1", Number: 1, Status: Completed, Usage: used}}, "r-l1", false, ""},
		"cancelled while paused": {Agent, []Event{Pause{}, Suspended{Launch: "l1", Token: "r-l1", Usage: used}, Cancel{}}, "r-l1", false, ""},
		"cut off":                {Agent, nil, "r-l1", true, ""},
		"completed": {
			Agent, []Event{Ended{Launch: "l1", Number: 1, Status: Completed}}, "", false, "the run has ended, completed; its result stands",
		},
		"nothing to run again": {
			Agent,
			[]Event{Ended{Launch: "l1", Number: 1, Action: Jump, To: "nowhere"}},
			"", false,
			`no step failed that could be run again: main asked for "nowhere", which the graph does not have`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Protocol, Graph{Start: "main", MaxTransitions: 9, Steps: []Node{{Name: "main", Kind: test.kind, MaxIterations: 9}}})
			s.Drain()
			for _, e := range test.events {
				s.Step(e)
				s.Drain()
			}
			err := s.Refuse(Reopened{Run: "r"})
			s.Step(Reopened{Run: "r"})
			if test.why != "" {
				require.EqualError(t, err, test.why)
				require.Empty(t, s.Drain())
				return
			}
			require.NoError(t, err)
			l := launchOf(t, s.Drain())
			require.Equal(t, "l2", l.ID)
			require.Equal(t, test.resume, l.ResumeFrom)
			require.Equal(t, test.uncounted, l.Uncounted)
			s.Step(Ended{Launch: "l2", Number: 2, Status: Completed})
			require.Equal(t, Completed, s.Result.Status)
		})
	}
}
