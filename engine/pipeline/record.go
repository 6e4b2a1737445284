package pipeline

import (
	"slices"
	"strconv"
	"strings"

	"conclave/engine/llm"
)

// Outline returns the part of the state that is not recorded elsewhere: everything but the
// graph, the trace and the timeline.
func (s *State) Outline() *State {
	o := *s
	o.Graph, o.Trace, o.Recent = Graph{}, nil, nil
	return &o
}

// Complete returns the full state for an outline.
func (s *State) Complete(g Graph, trace []TraceEntry) *State {
	c := *s
	c.Graph, c.Trace, c.Recent = g, slices.Clip(append([]TraceEntry{}, trace...)), []Entry{}
	return &c
}

// Claimed is a step that has claimed a number. The recorded state may not contain its end.
type Claimed struct {
	Launch string
	Token  string
	Number int
	Ended  *Ended    // nil without a commit
	Usage  llm.Usage // usage of a step without a commit
}

// Reach advances the recorded state to a launch and returns the launch's step. The launch may be the next
// one, or it may follow suspended steps. It returns false if the launch cannot follow.
func (s *State) Reach(launch string) (name string, running bool) {
	for !s.Done() {
		if s.Running == nil && s.Pending != nil {
			s.Paused, s.Parked = false, nil
			s.launchPending()
		}
		if s.Running == nil || s.Launches > launchNumber(launch) {
			break
		}
		if l := s.Running.Launch; l.ID == launch {
			return l.Step, true
		}
		s.Step(Suspended{Launch: s.Running.Launch.ID})
	}
	return "", false
}

// CatchUp applies the end of the running step, which the recorded state does not contain. If
// last is set, no later step has begun, and a step without a commit keeps running.
func (s *State) CatchUp(c Claimed, last bool) {
	switch {
	case c.Ended != nil:
		e := *c.Ended
		e.Launch = c.Launch
		s.Step(e)
	case !last:
		s.Step(Suspended{Launch: c.Launch, Number: c.Number, Token: c.Token, Usage: c.Usage})
	}
}

// launchNumber returns the number of a launch ID, or 0 for any other text.
func launchNumber(launch string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(launch, "l"))
	return n
}
