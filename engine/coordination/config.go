// The settings of the rules.

package coordination

import (
	"maps"
	"slices"
)

// Config has the settings of a session's protocol. It does not change once it is in a State.
//
// New replaces missing and unknown values by defaults, so every Config is valid; package
// config reports mistakes to people. The zero value of a field without a default switches its
// rule off.
type Config struct {
	Agents           []string `json:"agents"`               // IDs in configured order; an ID given twice counts once
	OnSplit          string   `json:"on_split"`             // default: revote
	MaxRevotes       int      `json:"max_revotes"`          // most revotes in a session; negative is 0
	MaxStepsPerAgent int      `json:"max_steps_per_agent"`  // default: 12
	OnAgentFailure   string   `json:"on_agent_failure"`     // default: continue
	MinActive        int      `json:"min_active,omitempty"` // active agents needed to decide by vote; 0 and 1 set no minimum

	Mode   string `json:"mode,omitempty"`   // default: voting
	Pacing string `json:"pacing,omitempty"` // default: rounds

	Updates         string `json:"updates,omitempty"`
	DeferUpdates    bool   `json:"defer_updates,omitempty"`     // peers' answers wait for an agent's next step
	BeforeChecklist bool   `json:"before_checklist,omitempty"`  // with DeferUpdates, answers wait only after the first checklist
	UpdatesPerStep  int    `json:"updates_per_step,omitempty"`  // 0: no limit
	LeadCap         *int   `json:"lead_cap,omitempty"`          // answers ahead of the slowest peer; nil: no limit
	AnswersPerAgent int    `json:"answers_per_agent,omitempty"` // 0: no limit; in decomposition without news between them
	AnswersGlobal   int    `json:"answers_global,omitempty"`    // 0: no limit
	DeferVoting     bool   `json:"defer_voting,omitempty"`      // no vote before every agent has answered
	SkipVoting      bool   `json:"skip_voting,omitempty"`       // done when every agent has answered
	Secluded        bool   `json:"secluded,omitempty"`          // each agent refines its own answer before it is shown those of others
	Solo            bool   `json:"solo,omitempty"`              // with continuous pacing, an agent without news keeps improving its answer
	Agree           string `json:"agree,omitempty"`             // default: normalized

	MaxRounds   int      `json:"max_rounds,omitempty"`   // most rounds of an attempt of the team; 0: no limit
	Quorum      bool     `json:"quorum,omitempty"`       // a majority decides while other steps run
	QuorumGrace int      `json:"quorum_grace,omitempty"` // seconds for which it waits for first answers
	Start       int      `json:"start,omitempty"`        // agents that begin; 0: all
	Grow        int      `json:"grow,omitempty"`         // agents that join when there is no majority; default 1
	Early       bool     `json:"early,omitempty"`        // equal first answers of a majority decide
	Ballot      string   `json:"ballot,omitempty"`       // default: text
	Checks      []string `json:"checks,omitempty"`       // IDs of the user's checks
	ShowChecks  bool     `json:"show_checks,omitempty"`  // voters are shown how answers do in the user's checks
	MinSupport  float64  `json:"min_support,omitempty"`  // share of votes below which a session is undecided

	Promise *Threshold         `json:"promise,omitempty"` // score of the support below which a session is undecided; nil: none
	Skill   map[string]float64 `json:"skill,omitempty"`   // skills of agents from 0 to 1, which decide ties; those without one come last

	Critiques     bool `json:"critiques,omitempty"`       // an answer is evaluated before its agent's next step
	StopAtCeiling bool `json:"stop_at_ceiling,omitempty"` // the session ends at the plateau of every answer

	Strategy         string `json:"strategy,omitempty"` // default: winner_reuse
	SkipPresentation bool   `json:"skip_presentation,omitempty"`
	Presenter        string `json:"presenter,omitempty"` // empty: the winner; in decomposition the last configured agent
	MaxRestarts      int    `json:"max_restarts,omitempty"`

	Budget Allowance `json:"budget,omitzero"`

	// CallerSeconds is how long the caller has to return the results of its tools; 0 is an
	// hour.
	CallerSeconds int `json:"caller_seconds,omitempty"`

	// MaxQuestions limits the questions of agents to people, AskSeconds the time of each; 0 is the default of
	// the public contract. After that time the session parks or, with DenyLate, goes on without a reply.
	MaxQuestions int  `json:"max_questions,omitempty"`
	AskSeconds   int  `json:"ask_seconds,omitempty"`
	DenyLate     bool `json:"deny_late,omitempty"`
}

// The values of Config.Mode, the division of the work.
const (
	voting        = "voting"        // every agent answers the query, and the team votes
	Decomposition = "decomposition" // every agent owns a part, and a presenter joins them
)

// The values of Config.Pacing, the timing of steps.
const (
	pacingRounds     = "rounds"     // the next wave waits for this one
	pacingContinuous = "continuous" // an agent is launched as soon as it has news
)

// The values of Config.Updates, the way in which new answers reach a running step.
const (
	noUpdates = ""        // new answers never reach it
	Inject    = "inject"  // shown in an update at the step's next safe point
	Restart   = "restart" // it ends at its next safe point and is launched again
)

// The values of Config.Strategy, the source of the final answer.
const (
	winnerReuse   = "winner_reuse"   // the winning answer stands
	winnerPresent = "winner_present" // its author presents it
	synthesize    = "synthesize"     // the presenter joins it with the strengths of the others
)

// The values of Config.OnSplit, the policy for fresh votes without a majority.
const (
	splitRevote    = "revote"    // launch everybody again, at most MaxRevotes times, then plurality
	splitPlurality = "plurality" // most fresh votes win
	SplitFail      = "fail"      // the session fails
)

// The values of Config.Ballot, the part of checks in a decision.
const (
	ballotText      = ""                  // checks do not run
	checksShown     = "checks_shown"      // voters see the outcomes
	checksBreakTies = "checks_break_ties" // they rank answers with as many votes
	checksDecide    = "checks_decide"     // votes rank answers that do equally well
)

// The values of Config.OnAgentFailure, the policy for a step that exhausts its retries.
const (
	failureContinue = "continue" // the other agents decide
	failurePark     = "park"     // the session waits for a person
	failureFail     = "fail"     // the session fails
)

// defaultMaxSteps is the public contract's default of max_steps_per_agent.
const defaultMaxSteps = 12

// withDefaults returns a deep copy of c with defaults for missing and unknown values.
func (c Config) withDefaults() Config {
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
	c.Updates = oneOf(c.Updates, noUpdates, Inject, Restart)
	c.Strategy = oneOf(c.Strategy, winnerReuse, winnerPresent, synthesize)
	c.Agree = oneOf(c.Agree, "", agreeNormalized, agreeExact, agreeData)
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
	for _, n := range []*int{
		&c.MaxRevotes, &c.MinActive, &c.MaxRounds, &c.QuorumGrace, &c.Start,
		&c.UpdatesPerStep, &c.AnswersPerAgent, &c.AnswersGlobal, &c.MaxRestarts,
	} {
		*n = max(*n, 0)
	}
	if c.Start > 0 {
		c.Grow = max(c.Grow, 1)
	}
	c.Ballot = oneOf(c.Ballot, ballotText, checksShown, checksBreakTies, checksDecide)
	if c.Ballot == ballotText || c.Mode == Decomposition {
		c.Ballot, c.Checks, c.ShowChecks = ballotText, nil, false
	}
	c.MinSupport = min(max(c.MinSupport, 0), 1)
	if c.Skill = maps.Clone(c.Skill); len(c.Skill) == 0 {
		c.Skill = nil
	}
	c.Budget = Allowance{USD: max(c.Budget.USD, 0), Tokens: max(c.Budget.Tokens, 0)}
	return c
}

func oneOf(value, otherwise string, others ...string) string {
	if slices.Contains(others, value) {
		return value
	}
	return otherwise
}

// decidesByVote reports whether the session decides by votes. It does not in decomposition, with
// skip_voting, or where each agent may answer once and all answers are synthesized, unless
// voting is deferred.
func (c Config) decidesByVote() bool {
	once := len(c.Agents) > 1 && c.Strategy == synthesize && c.AnswersPerAgent == 1 && !c.DeferVoting
	return c.Mode == voting && !c.SkipVoting && !once
}

func (c Config) presentsAnswer() bool {
	wanted := c.Mode == Decomposition || c.Strategy != winnerReuse
	skipped := c.SkipPresentation && (c.SkipVoting || c.Strategy == winnerReuse)
	return wanted && !skipped
}
