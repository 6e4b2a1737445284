package coordination

import (
	"slices"

	"conclave/engine/llm"
)

// Protocol is the version of the rules that New starts a session with. State
// keeps the one it was started with, and any later change of behaviour asks
// State.Protocol which rules hold.
const Protocol = 1

// State is a session's coordination at one moment: plain data that survives
// JSON unchanged at any point. It is the payload of continue-as-new, what the
// queries show and what property tests drive.
//
// A State is not safe for concurrent use. Its size is bounded by the number of
// agents and their step limits, not by the length of the session.
type State struct {
	Protocol int     `json:"protocol"`
	Config   Config  `json:"config"`
	Agents   []Agent `json:"agents"` // in configured order
	Round    int     `json:"round"`  // the wave launched last, from 1; 0 before the first
	Revotes  int     `json:"revotes"`
	Launches int     `json:"launches"` // launch IDs minted

	Accepted int        `json:"accepted"` // ledger entries written
	Pending  []Accepted `json:"pending"`  // those the next Drain hands out

	Forced  Status    `json:"forced"`  // the decision asked for by Finish or TimeUp, until it is taken
	Outcome *Decision `json:"outcome"` // nil until the session is done

	Events int     `json:"events"` // timeline entries written
	Recent []Entry `json:"recent"` // the last of them
}

// Agent is what the session knows of one member.
type Agent struct {
	ID      string   `json:"id"`
	Number  int      `json:"number"`  // anonymous number, from 1
	Run     *Run     `json:"run"`     // nil when no step runs
	Step    int      `json:"step"`    // number of the last finished step, 0 before the first
	Steps   int      `json:"steps"`   // steps ended, with or without an action; what the step limit counts
	Answers []int    `json:"answers"` // steps of its accepted answers; the M-th one is agent<N>.<M>
	Newest  int      `json:"newest"`  // ledger entry of its latest answer, 0 without one
	Ballot  *Ballot  `json:"ballot"`  // its vote, fresh or stale; nil without one
	Error   *Failure `json:"error"`   // why it failed; nil while it is active

	Usage llm.Usage `json:"usage"` // of all its steps, failed ones included
}

// Run is a launched step that has not ended.
type Run struct {
	Launch  LaunchID `json:"launch"`
	MayVote bool     `json:"may_vote"`
}

// Ballot is an accepted vote that has not been withdrawn.
type Ballot struct {
	Target      string `json:"target"`
	TargetLabel string `json:"target_label"`
	Step        int    `json:"step"`
	Reason      string `json:"reason"` // cut
	Seen        []Seen `json:"seen"`   // in byte order of the IDs
}

// New starts a session. The first Drain launches the first wave.
func New(c Config) *State {
	s := &State{Protocol: Protocol, Config: c.normal()}
	sorted := slices.Sorted(slices.Values(s.Config.Agents))
	for _, id := range s.Config.Agents {
		s.Agents = append(s.Agents, Agent{ID: id, Number: 1 + slices.Index(sorted, id)})
	}
	return s
}

// Done reports whether the session has ended.
func (s *State) Done() bool { return s.Outcome != nil }

// Decision is the outcome, the zero Decision until the session is done.
func (s *State) Decision() Decision {
	if s.Outcome == nil {
		return Decision{}
	}
	d := *s.Outcome
	d.Votes = slices.Clone(d.Votes)
	return d
}

// Cost is the usage of all agents together.
func (s *State) Cost() llm.Usage {
	var sum llm.Usage
	for i := range s.Agents {
		sum = sum.Add(s.Agents[i].Usage)
	}
	return sum
}

// agent finds a member by ID; nil if there is none.
func (s *State) agent(id string) *Agent {
	for i := range s.Agents {
		if s.Agents[i].ID == id {
			return &s.Agents[i]
		}
	}
	return nil
}

// running reports whether any launched step has not ended.
func (s *State) running() bool {
	return slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Run != nil })
}

// active is the N of the majority.
func (s *State) active() int {
	n := 0
	for i := range s.Agents {
		if s.Agents[i].active() {
			n++
		}
	}
	return n
}

func (a *Agent) active() bool { return a.Error == nil }

func (a *Agent) answered() bool { return len(a.Answers) > 0 }

// latest is the step of the agent's latest accepted answer, 0 without one.
func (a *Agent) latest() int {
	if !a.answered() {
		return 0
	}
	return a.Answers[len(a.Answers)-1]
}
