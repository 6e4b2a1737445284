package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
			s := New(Graph{Start: "main", MaxTransitions: 9, Steps: []Node{{Name: "main", Kind: test.kind, MaxIterations: 9}}})
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
			require.Equal(t, test.kind == Session, l.TeamOf == "l1")
			s.Step(Ended{Launch: "l2", Number: 2, Status: Completed})
			require.Equal(t, Completed, s.Result.Status)
		})
	}
}

// Rule 16.
func TestReopened_teams(t *testing.T) {
	t.Parallel()
	used := llm.Usage{ModelCalls: 1}
	for name, test := range map[string]struct {
		events []Event
		want   Launch
	}{
		"failed":                 {[]Event{Broke{Launch: "l1", Usage: used}}, Launch{TeamOf: "l1", Counted: used}},
		"told of a message":      {[]Event{Said{Text: "brief"}, Broke{Launch: "l1", Usage: used}}, Launch{TeamOf: "l1", Counted: used, Told: 1}},
		"cannot go on":           {[]Event{Broke{Launch: "l1", Usage: used, Anew: true}}, Launch{}},
		"cancelled":              {[]Event{Cancel{}, Suspended{Launch: "l1", Usage: used}}, Launch{TeamOf: "l1", Counted: used}},
		"cancelled, ended after": {[]Event{Cancel{}, Ended{Launch: "l1", Number: 1, Status: Completed, Usage: used}}, Launch{TeamOf: "l1", Counted: used}},
		"cut off":                {nil, Launch{TeamOf: "l1"}},
		"failed twice": {
			[]Event{Broke{Launch: "l1", Usage: used}, Reopened{}, Broke{Launch: "l2", Usage: used}},
			Launch{TeamOf: "l1", Counted: llm.Usage{ModelCalls: 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Graph{Start: "main", MaxTransitions: 9, Steps: []Node{{Name: "main", Kind: Session, MaxIterations: 9}}})
			s.Drain()
			for _, e := range test.events {
				s.Step(e)
				s.Drain() // as the driver does
				s.Drain()
			}
			s.Step(Reopened{Run: "r"})
			l := launchOf(t, s.Drain())
			require.Equal(t, test.want, Launch{TeamOf: l.TeamOf, Counted: l.Counted, Told: l.Told, ResumeFrom: l.ResumeFrom})
		})
	}
}

// If a step was cut off before it claimed a number, its predecessor is resumed.
func TestReopened_unclaimed(t *testing.T) {
	t.Parallel()
	s := New(Graph{Start: "main", MaxTransitions: 9, Steps: []Node{{Name: "main", Kind: Agent, MaxIterations: 9}}})
	s.Drain()
	for _, e := range []Event{Pause{}, Suspended{Launch: "l1", Number: 1, Token: "r-l1"}, Resume{}} {
		s.Step(e)
		s.Drain()
	}
	require.Equal(t, "l2", s.Running.Launch.ID)
	s.Step(Reopened{Run: "r", Unclaimed: []string{"l2"}})
	l := launchOf(t, s.Drain())
	require.Equal(t, "r-l1", l.ResumeFrom)
	require.True(t, l.Uncounted)
}

// A recorded state is updated with the claims and commits that it lacks.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		s := New(g)
		var recorded *State
		var claims []Claimed
		traced := 0
		at := rapid.IntRange(0, 6).Draw(t, "recorded")
		until := at + rapid.IntRange(0, 4).Draw(t, "lag")
		for moment := 0; !s.Done(); moment++ {
			if moment == at && rapid.Bool().Draw(t, "before the launch") {
				recorded, traced, claims = copied(t, s.Outline()), len(s.Trace), nil
			}
			s.Drain()
			if moment == at && recorded == nil {
				recorded, traced, claims = copied(t, s.Outline()), len(s.Trace), nil
			}
			if s.Done() {
				break
			}
			l := s.Running.Launch
			claim := Claimed{Launch: l.ID, Token: "r-" + l.ID, Number: l.After + 1, Usage: llm.Usage{ModelCalls: 1}}
			if moment == until {
				claims = append(claims, claim)
				break
			}
			if rapid.IntRange(0, 3).Draw(t, "suspended") == 0 {
				for _, e := range []Event{Pause{}, Suspended{Launch: l.ID, Number: claim.Number, Token: claim.Token, Usage: claim.Usage}, Resume{}} {
					s.Step(e)
				}
			} else {
				e, ended := randomEnd(t, g, l).(Ended)
				if !ended {
					return
				}
				claim.Ended = &e
				s.Step(e)
			}
			claims = append(claims, claim)
		}
		if recorded == nil || s.Done() {
			return
		}
		caught := copied(t, recorded).Complete(g, s.Trace[:traced])
		known := caught.Launches
		for i, c := range claims {
			name, running := caught.Reach("", c.Launch, known)
			require.True(t, running, c.Launch)
			require.NotEmpty(t, name)
			caught.CatchUp(c, i == len(claims)-1)
		}
		s.Recent, s.Events, caught.Recent, caught.Events = nil, 0, nil, 0
		require.Equal(t, copied(t, s), copied(t, caught))
	})
}

// copied returns the state as it would be stored and read.
func copied(t *rapid.T, s *State) *State {
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var c State
	require.NoError(t, json.Unmarshal(data, &c))
	return &c
}
