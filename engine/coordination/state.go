package coordination

import (
	"slices"

	"conclave/engine/llm"
)

// Protocol is the version of the rules. A State keeps the version with which it was started;
// a run of another version is not continued by this one.
const Protocol = 5

// State is the state of a session's coordination: plain data that survives JSON
// unchanged at any point. It is the payload of continue-as-new.
//
// A State is not safe for concurrent use. Its size is bounded by the number of agents,
// their step limits and the number of human messages, not by the length of the session.
type State struct {
	Protocol int      `json:"protocol"`
	Config   Config   `json:"config"`
	Agents   []*agent `json:"agents"` // agents in configured order
	Round    int      `json:"round"`  // the newest round, from 1; 0 before the first
	Revotes  int      `json:"revotes"`
	Cast     int      `json:"cast,omitempty"` // number of votes accepted
	Launches int      `json:"launches"`       // number of launch IDs given

	LongestCall float64 `json:"longest_call,omitempty"` // longest model call of an ended step, in seconds

	Accepted int        `json:"accepted"` // number of ledger entries written
	Pending  []Accepted `json:"pending"`  // those the next Drain hands out

	Shared    bool       `json:"shared,omitempty"`   // the seclusion of this attempt has ended
	Messages  []Message  `json:"messages,omitempty"` // messages from people
	Paused    bool       `json:"paused,omitempty"`
	Short     bool       `json:"short,omitempty"`    // the session's time is nearly over
	Waits     int        `json:"waits,omitempty"`    // number of consecutive waits since a step ended without an outage
	Waiting   bool       `json:"waiting,omitempty"`  // the last Wait has not ended
	Stranded  bool       `json:"stranded,omitempty"` // agents below the minimum have never reached their servers
	Majority  *majority  `json:"majority,omitempty"` // majority of a quorum that waits for first answers
	Checks    []check    `json:"checks,omitempty"`
	Checkings []checking `json:"checkings,omitempty"` // checks that have not ended
	Checkups  int        `json:"checkups,omitempty"`  // IDs of checkings minted
	Places    int        `json:"places,omitempty"`    // agents that work at a time in a staged team; 0: all
	Begun     int        `json:"begun,omitempty"`     // rounds before this attempt of the team, and before its newest join
	Bell      Ring       `json:"bell,omitzero"`       // the last ring

	Forced   Status           `json:"forced"`             // the end that Finish, TimeUp or CancelRequested forces; empty once it is reached
	Settled  *int             `json:"settled,omitempty"`  // number of messages at the decision; nil before it
	Finale   *finale          `json:"finale,omitempty"`   // nil unless a final answer is being made
	Earlier  []RejectedAnswer `json:"earlier,omitempty"`  // rejected attempts of the team
	Fallback *Decision        `json:"fallback,omitempty"` // the decision of the last rejected attempt
	Outcome  *Decision        `json:"outcome"`            // nil until the session is done

	Preparation llm.Usage `json:"preparation,omitzero"` // usage of the calls before the first step

	Called   []callsOf `json:"called,omitempty"`  // the calls of the caller's tools
	Calling  bool      `json:"calling,omitempty"` // the last AskCaller has not ended
	Gone     bool      `json:"gone,omitempty"`    // the caller has not returned in time
	Reported llm.Usage `json:"reported,omitzero"` // the cost when the caller was last asked

	Events int     `json:"events"` // number of timeline entries written
	Recent []Entry `json:"recent"` // the last of them
}

// agent is the state of one agent.
type agent struct {
	ID       string       `json:"id"`
	Number   int          `json:"number"`             // anonymous number, from 1
	Run      *runningStep `json:"run"`                // nil when no step runs
	Step     int          `json:"step"`               // number of the last finished step, 0 before the first
	Steps    int          `json:"steps"`              // ended steps of this attempt, with or without an action; limited by MaxStepsPerAgent
	Answers  []int        `json:"answers"`            // steps of its accepted answers; the M-th one is agent<N>.<M>
	Newest   int          `json:"newest"`             // ledger entry of its latest answer, 0 without one
	Digest   Digest       `json:"digest,omitzero"`    // digest of its latest answer
	Verdicts string       `json:"verdicts,omitempty"` // verdicts of the checks on its latest answer, by index
	First    Digest       `json:"first,omitzero"`     // digest of its first answer of this attempt, if no other was shown to it
	Copied   bool         `json:"copied,omitempty"`   // its latest answer equals one that its author was shown
	Ballot   *ballot      `json:"ballot"`             // its vote, fresh or stale; nil without one
	Error    *Failure     `json:"error"`              // its failure; nil while it is active
	Away     Outage       `json:"away,omitempty"`     // the outage behind Error

	Absent  bool           `json:"absent,omitempty"`  // it has not joined the staged team
	Halt    *halt          `json:"halt,omitempty"`    // its stop, fresh or stale; nil without one
	Base    int            `json:"base,omitempty"`    // answers of earlier attempts of the team, which no longer count
	Rounds  int            `json:"rounds,omitempty"`  // launches, without resumed steps
	Begun   int            `json:"begun,omitempty"`   // those before this attempt of the team, and before its newest join
	Ran     bool           `json:"ran,omitempty"`     // a step of this attempt has ended
	Known   []Seen         `json:"known,omitempty"`   // the answers shown to its last finished step
	Noted   []Seen         `json:"noted,omitempty"`   // the answers that reached its steps while they ran, as far as noted
	Heard   int            `json:"heard,omitempty"`   // the last human message it received
	Streak  int            `json:"streak,omitempty"`  // its answers since the last news
	Again   bool           `json:"again,omitempty"`   // its step ended itself for news
	Rest    *resumableStep `json:"rest,omitempty"`    // the suspended or failed step to resume
	Left    string         `json:"left,omitempty"`    // token of one that is not resumed, for its files
	Retried bool           `json:"retried,omitempty"` // a person has retried its failed step

	Critique *Critique `json:"critique,omitempty"` // the last evaluation of an answer of this attempt, even one that failed
	Judged   *Critique `json:"judged,omitempty"`   // the last one that did not fail

	Usage llm.Usage `json:"usage"` // usage of all its steps, failed ones and evaluations of its answers included
}

// runningStep is a launched step that has not ended.
type runningStep struct {
	Launch    Launch `json:"launch"`
	Cancelled bool   `json:"cancelled,omitempty"` // its Cancel was handed out

	Out  *Doing `json:"out,omitempty"`  // the outage of its model that it has reported; nil while the model replies
	Away bool   `json:"away,omitempty"` // the others go on without it

	// Awaits are the calls for whose results the step waits, without an activity; Token is
	// then its execution token.
	Awaits []Call `json:"awaits,omitempty"`
	Token  string `json:"token,omitempty"`
}

// resumableStep is a suspended or failed step that can be resumed.
type resumableStep struct {
	Launch Launch `json:"launch"`
	Token  string `json:"token"` // its execution token; empty if it left nothing to resume

	// Uncounted is set if the step's usage is unknown.
	Uncounted bool `json:"uncounted,omitempty"`

	// Late is set if the step reached an action after the session had failed.
	Late bool `json:"late,omitempty"`
}

// ballot is an accepted vote that has not been withdrawn.
type ballot struct {
	Target      string `json:"target"`
	TargetLabel string `json:"target_label"`
	Step        int    `json:"step"`
	Reason      string `json:"reason"` // truncated text
	Seen        []Seen `json:"seen"`   // answers seen, in byte order of the agents' IDs
	Heard       int    `json:"heard,omitempty"`

	Confidence *float64 `json:"confidence,omitempty"` // confidence from 0 to 1; nil if unknown
}

// halt is an accepted stop that has not been withdrawn.
type halt struct {
	Status  StopStatus `json:"status"`
	Summary string     `json:"summary"` // truncated text
	Step    int        `json:"step"`    // 0 if the session stopped the agent at its limit
	Seen    []Seen     `json:"seen"`    // answers seen, in byte order of the agents' IDs
	Heard   int        `json:"heard,omitempty"`
}

// New starts a session. The first Drain launches the first steps.
func New(c Config) *State {
	s := &State{Protocol: Protocol, Config: c.normal()}
	sorted := slices.Sorted(slices.Values(s.Config.Agents))
	for _, id := range s.Config.Agents {
		s.Agents = append(s.Agents, &agent{ID: id, Number: 1 + slices.Index(sorted, id)})
	}
	for _, id := range s.Config.Checks[:min(len(s.Config.Checks), MaxSessionChecks)] {
		s.Checks = append(s.Checks, check{ID: id})
	}
	s.assemble()
	return s
}

// Done reports whether the session has ended.
func (s *State) Done() bool { return s.Outcome != nil }

// Decision returns the outcome, or the zero Decision before the session is done.
func (s *State) Decision() Decision {
	if s.Outcome == nil {
		return Decision{}
	}
	return s.Outcome.clone()
}

// Cost returns the usage of the preparations and of all agents together.
func (s *State) Cost() llm.Usage {
	sum := s.Preparation
	for _, a := range s.Agents {
		sum = sum.Add(a.Usage)
	}
	return sum
}

// agent returns the agent with the ID, or nil.
func (s *State) agent(id string) *agent {
	if i := s.index(id); i >= 0 {
		return s.Agents[i]
	}
	return nil
}

func (s *State) index(id string) int {
	return slices.IndexFunc(s.Agents, func(a *agent) bool { return a.ID == id })
}

// agents returns the agents that match, in configured order.
func (s *State) agents(match func(*agent) bool) []*agent {
	var matching []*agent
	for _, a := range s.Agents {
		if match(a) {
			matching = append(matching, a)
		}
	}
	return matching
}

// byNumber returns the agents in the order of their anonymous numbers, which does not reveal
// the configured order.
func (s *State) byNumber() []*agent {
	agents := make([]*agent, len(s.Agents))
	for _, a := range s.Agents {
		agents[a.Number-1] = a
	}
	return agents
}

// running reports whether a launched step has not ended.
func (s *State) running() bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Run != nil })
}

// active returns the number of active agents, the N of the majority.
func (s *State) active() int { return len(s.agents((*agent).active)) }

// attempt returns the number of the team's present attempt, from 1.
func (s *State) attempt() int { return 1 + len(s.Earlier) }

// active reports whether the agent exists, has joined the team, has not failed and is not away.
func (a *agent) active() bool {
	return a != nil && a.Error == nil && !a.Absent && (a.Run == nil || !a.Run.Away)
}

// answered reports whether the agent has an answer in the present attempt.
func (a *agent) answered() bool { return a != nil && len(a.Answers) > a.Base }

// answerCount returns the number of answers of the present attempt.
func (a *agent) answerCount() int { return len(a.Answers) - a.Base }

// latest returns the step of the agent's latest accepted answer, or 0.
func (a *agent) latest() int {
	if !a.answered() {
		return 0
	}
	return a.Answers[len(a.Answers)-1]
}

func (d Decision) clone() Decision {
	d.Votes, d.Voters, d.Tied, d.Final = slices.Clone(d.Votes), slices.Clone(d.Voters), slices.Clone(d.Tied), shallow(d.Final)
	d.Cut, d.Support = slices.Clone(d.Cut), shallow(d.Support)
	return d
}

// shallow returns a pointer to a copy of *p, or nil.
func shallow[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
