package coordination

import (
	"slices"

	"conclave/engine/llm"
)

// Config is what a session's protocol depends on. It is frozen in State.
//
// New puts defaults in the place of missing or unknown values, so that every
// Config is a valid one; refusing what a person wrote wrongly is the business
// of package config. The zero value of every field but those with a default
// switches its rule off: a Config of protocol 1 has nothing else.
type Config struct {
	Agents           []string       `json:"agents"`              // IDs in configured order; an ID given twice counts once
	OnSplit          OnSplit        `json:"on_split"`            // default revote
	MaxRevotes       int            `json:"max_revotes"`         // per session; negative is 0
	MaxStepsPerAgent int            `json:"max_steps_per_agent"` // default 12
	OnAgentFailure   OnAgentFailure `json:"on_agent_failure"`    // default continue

	Mode   Mode   `json:"mode,omitempty"`   // default voting
	Pacing Pacing `json:"pacing,omitempty"` // default rounds

	Updates         UpdateMode `json:"updates,omitempty"`
	DeferUpdates    bool       `json:"defer_updates,omitempty"`     // peers' updates wait for an agent's next step
	BeforeChecklist bool       `json:"before_checklist,omitempty"`  // with DeferUpdates: not before the first checklist
	UpdatesPerStep  int        `json:"updates_per_step,omitempty"`  // 0: any number
	LeadCap         *int       `json:"lead_cap,omitempty"`          // answers ahead of the slowest peer; nil: any number
	AnswersPerAgent int        `json:"answers_per_agent,omitempty"` // 0: any number; in decomposition a streak
	AnswersGlobal   int        `json:"answers_global,omitempty"`    // 0: any number
	DeferVoting     bool       `json:"defer_voting,omitempty"`      // no vote before all have answered
	SkipVoting      bool       `json:"skip_voting,omitempty"`       // done when all have answered

	Strategy         FinalStrategy `json:"strategy,omitempty"` // default winner_reuse
	SkipPresentation bool          `json:"skip_presentation,omitempty"`
	Presenter        string        `json:"presenter,omitempty"` // empty: the winner; in decomposition the agent configured last
	MaxRestarts      int           `json:"max_restarts,omitempty"`

	Budget Budget `json:"budget,omitzero"`
}

// Mode is how a team divides the work.
type Mode string

// The values of Mode.
const (
	Voting        Mode = "voting"        // everybody answers the query, and the team votes
	Decomposition Mode = "decomposition" // everybody owns a part, and a presenter joins them
)

// Pacing says whether steps wait for one another.
type Pacing string

// The values of Pacing.
const (
	Rounds     Pacing = "rounds"     // the next wave waits for this one
	Continuous Pacing = "continuous" // an agent goes on as soon as it has something new to look at
)

// UpdateMode says how a step learns of answers given while it works.
type UpdateMode string

// The values of UpdateMode.
const (
	NoUpdates UpdateMode = ""        // it does not
	Inject    UpdateMode = "inject"  // it is told at its next safe point
	Restart   UpdateMode = "restart" // it ends at its next safe point and is launched again
)

// FinalStrategy is how the final answer is made of what won.
type FinalStrategy string

// The values of FinalStrategy.
const (
	Reuse         FinalStrategy = "winner_reuse"   // it stands as it is
	WinnerPresent FinalStrategy = "winner_present" // its author presents it
	Synthesize    FinalStrategy = "synthesize"     // it is joined with the strengths of the others
)

// Budget is what a session may spend; zero fields are no limit.
type Budget struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"` // input and output together
}

// OnSplit says what to do when every vote is fresh and no target has the majority.
type OnSplit string

// The values of OnSplit.
const (
	SplitRevote    OnSplit = "revote"    // relaunch everybody, at most MaxRevotes times, then plurality
	SplitPlurality OnSplit = "plurality" // most fresh votes win
	SplitFail      OnSplit = "fail"      // the session fails
)

// OnAgentFailure says what to do when a step exhausts its retries.
type OnAgentFailure string

// The values of OnAgentFailure.
const (
	FailureContinue OnAgentFailure = "continue" // the rest decide
	FailurePark     OnAgentFailure = "park"     // the session waits for a person
	FailureFail     OnAgentFailure = "fail"     // the session fails
)

// defaultMaxSteps is the public contract's default of max_steps_per_agent.
const defaultMaxSteps = 12

// normal returns c with defaults for what is missing, sharing nothing with c.
func (c Config) normal() Config {
	agents := make([]string, 0, len(c.Agents))
	for _, id := range c.Agents {
		if !slices.Contains(agents, id) {
			agents = append(agents, id)
		}
	}
	c.Agents = agents
	if c.OnSplit != SplitPlurality && c.OnSplit != SplitFail {
		c.OnSplit = SplitRevote
	}
	if c.OnAgentFailure != FailureFail && c.OnAgentFailure != FailurePark {
		c.OnAgentFailure = FailureContinue
	}
	c.MaxRevotes = max(c.MaxRevotes, 0)
	if c.MaxStepsPerAgent <= 0 {
		c.MaxStepsPerAgent = defaultMaxSteps
	}
	if c.Mode != Decomposition {
		c.Mode = Voting
	}
	if c.Pacing != Continuous {
		c.Pacing = Rounds
	}
	if c.Updates != Inject && c.Updates != Restart {
		c.Updates = NoUpdates
	}
	if c.Strategy != WinnerPresent && c.Strategy != Synthesize {
		c.Strategy = Reuse
	}
	if !slices.Contains(c.Agents, c.Presenter) {
		c.Presenter = ""
	}
	if c.LeadCap != nil {
		lead := max(*c.LeadCap, 0)
		c.LeadCap = &lead
	}
	c.UpdatesPerStep = max(c.UpdatesPerStep, 0)
	c.AnswersPerAgent = max(c.AnswersPerAgent, 0)
	c.AnswersGlobal = max(c.AnswersGlobal, 0)
	c.MaxRestarts = max(c.MaxRestarts, 0)
	c.Budget.USD, c.Budget.Tokens = max(c.Budget.USD, 0), max(c.Budget.Tokens, 0)
	return c
}

// votes reports whether the session decides by votes. It does not where the
// parts of the work are joined, where voting is skipped, and where everybody
// may answer once and everything is synthesized (unless votes were asked for
// by deferring them).
func (c Config) votes() bool {
	once := len(c.Agents) > 1 && c.Strategy == Synthesize && c.AnswersPerAgent == 1 && !c.DeferVoting
	return c.Mode == Voting && !c.SkipVoting && !once
}

// presents reports whether the final answer is made by a step of its own.
func (c Config) presents() bool {
	wanted := c.Mode == Decomposition || c.Strategy != Reuse
	skipped := c.SkipPresentation && (c.SkipVoting || c.Strategy == Reuse)
	return wanted && !skipped
}

// spent reports whether the budget is used up. Calls of unknown cost count as
// nothing: in a session with a cost limit they are those that a server did not count.
func (b Budget) spent(u llm.Usage) bool {
	if b.Tokens > 0 && u.InputTokens+u.OutputTokens >= b.Tokens {
		return true
	}
	return b.USD > 0 && u.AtLeastUSD() >= b.USD
}
