package coordination

import "slices"

// Config has the settings of a session's protocol. It is frozen in State.
//
// New replaces missing and unknown values by defaults, so every Config is valid;
// package config reports mistakes to people. The zero value of a field without a
// default switches its rule off.
type Config struct {
	Agents           []string       `json:"agents"`              // IDs in configured order; an ID given twice counts once
	OnSplit          OnSplit        `json:"on_split"`            // default revote
	MaxRevotes       int            `json:"max_revotes"`         // per session; negative is 0
	MaxStepsPerAgent int            `json:"max_steps_per_agent"` // default 12
	OnAgentFailure   OnAgentFailure `json:"on_agent_failure"`    // default continue

	Mode   Mode   `json:"mode,omitempty"`   // default voting
	Pacing Pacing `json:"pacing,omitempty"` // default rounds

	Updates         UpdateMode `json:"updates,omitempty"`
	DeferUpdates    bool       `json:"defer_updates,omitempty"`     // peers' answers wait for an agent's next step
	BeforeChecklist bool       `json:"before_checklist,omitempty"`  // with DeferUpdates: they wait only after the first checklist
	UpdatesPerStep  int        `json:"updates_per_step,omitempty"`  // 0: no limit
	LeadCap         *int       `json:"lead_cap,omitempty"`          // answers ahead of the slowest peer; nil: no limit
	AnswersPerAgent int        `json:"answers_per_agent,omitempty"` // 0: no limit; in decomposition without news between them
	AnswersGlobal   int        `json:"answers_global,omitempty"`    // 0: no limit
	DeferVoting     bool       `json:"defer_voting,omitempty"`      // no vote before every agent has answered
	SkipVoting      bool       `json:"skip_voting,omitempty"`       // done when every agent has answered

	Strategy         FinalStrategy `json:"strategy,omitempty"` // default winner_reuse
	SkipPresentation bool          `json:"skip_presentation,omitempty"`
	Presenter        string        `json:"presenter,omitempty"` // empty: the winner; in decomposition the last configured agent
	MaxRestarts      int           `json:"max_restarts,omitempty"`

	Budget Allowance `json:"budget,omitzero"`
}

// Mode is the division of the work.
type Mode string

// The values of Mode.
const (
	voting        Mode = "voting"        // every agent answers the query, and the team votes
	Decomposition Mode = "decomposition" // every agent owns a part, and a presenter joins them
)

// Pacing is the timing of steps.
type Pacing string

// The values of Pacing.
const (
	pacingRounds     Pacing = "rounds"     // the next wave waits for this one
	pacingContinuous Pacing = "continuous" // an agent is launched as soon as it has news
)

// UpdateMode is the way in which a running step learns of new answers.
type UpdateMode string

// The values of UpdateMode.
const (
	NoUpdates UpdateMode = ""        // never
	Inject    UpdateMode = "inject"  // in an update at its next safe point
	Restart   UpdateMode = "restart" // it ends at its next safe point and is launched again
)

// FinalStrategy is the way in which the final answer is made.
type FinalStrategy string

// The values of FinalStrategy.
const (
	winnerReuse   FinalStrategy = "winner_reuse"   // the winning answer stands
	WinnerPresent FinalStrategy = "winner_present" // its author presents it
	Synthesize    FinalStrategy = "synthesize"     // the presenter joins it with the strengths of the others
)

// OnSplit is the policy for fresh votes without a majority.
type OnSplit string

// The values of OnSplit.
const (
	splitRevote    OnSplit = "revote"    // launch everybody again, at most MaxRevotes times, then plurality
	splitPlurality OnSplit = "plurality" // most fresh votes win
	SplitFail      OnSplit = "fail"      // the session fails
)

// OnAgentFailure is the policy for a step that exhausts its retries.
type OnAgentFailure string

// The values of OnAgentFailure.
const (
	failureContinue OnAgentFailure = "continue" // the rest decide
	failurePark     OnAgentFailure = "park"     // the session waits for a person
	failureFail     OnAgentFailure = "fail"     // the session fails
)

// defaultMaxSteps is the public contract's default of max_steps_per_agent.
const defaultMaxSteps = 12

// normal returns c with defaults for missing and unknown values. It shares nothing with
// c.
func (c Config) normal() Config {
	agents := make([]string, 0, len(c.Agents))
	for _, id := range c.Agents {
		if !slices.Contains(agents, id) {
			agents = append(agents, id)
		}
	}
	c.Agents = agents
	c.OnSplit = oneOf(c.OnSplit, splitRevote, splitPlurality, SplitFail)
	c.OnAgentFailure = oneOf(c.OnAgentFailure, failureContinue, failureFail, failurePark)
	c.Mode = oneOf(c.Mode, voting, Decomposition)
	c.Pacing = oneOf(c.Pacing, pacingRounds, pacingContinuous)
	c.Updates = oneOf(c.Updates, NoUpdates, Inject, Restart)
	c.Strategy = oneOf(c.Strategy, winnerReuse, WinnerPresent, Synthesize)
	if c.MaxStepsPerAgent <= 0 {
		c.MaxStepsPerAgent = defaultMaxSteps
	}
	if !slices.Contains(c.Agents, c.Presenter) {
		c.Presenter = ""
	}
	if c.LeadCap != nil {
		lead := max(*c.LeadCap, 0)
		c.LeadCap = &lead
	}
	c.MaxRevotes = max(c.MaxRevotes, 0)
	c.UpdatesPerStep = max(c.UpdatesPerStep, 0)
	c.AnswersPerAgent = max(c.AnswersPerAgent, 0)
	c.AnswersGlobal = max(c.AnswersGlobal, 0)
	c.MaxRestarts = max(c.MaxRestarts, 0)
	c.Budget = Allowance{USD: max(c.Budget.USD, 0), Tokens: max(c.Budget.Tokens, 0)}
	return c
}

// oneOf returns value if it is one of the others, else the default.
func oneOf[T comparable](value, otherwise T, others ...T) T {
	if slices.Contains(others, value) {
		return value
	}
	return otherwise
}

// votes reports whether the session decides by votes. It does not where the
// parts of the work are joined, where voting is skipped, and where everybody
// may answer once and everything is synthesized (unless votes were asked for
// by deferring them).
func (c Config) votes() bool {
	once := len(c.Agents) > 1 && c.Strategy == Synthesize && c.AnswersPerAgent == 1 && !c.DeferVoting
	return c.Mode == voting && !c.SkipVoting && !once
}

// presents reports whether the final answer is made by a step of its own.
func (c Config) presents() bool {
	wanted := c.Mode == Decomposition || c.Strategy != winnerReuse
	skipped := c.SkipPresentation && (c.SkipVoting || c.Strategy == winnerReuse)
	return wanted && !skipped
}
