package coordination

import "slices"

// Config is what a session's protocol depends on. It is frozen in State.
//
// New puts defaults in the place of missing or unknown values, so that every
// Config is a valid one; refusing what a person wrote wrongly is the business
// of package config.
type Config struct {
	Agents           []string       `json:"agents"`              // IDs in configured order; an ID given twice counts once
	OnSplit          OnSplit        `json:"on_split"`            // default revote
	MaxRevotes       int            `json:"max_revotes"`         // per session; negative is 0
	MaxStepsPerAgent int            `json:"max_steps_per_agent"` // default 12
	OnAgentFailure   OnAgentFailure `json:"on_agent_failure"`    // default continue
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
	if c.OnAgentFailure != FailureFail {
		c.OnAgentFailure = FailureContinue
	}
	c.MaxRevotes = max(c.MaxRevotes, 0)
	if c.MaxStepsPerAgent <= 0 {
		c.MaxStepsPerAgent = defaultMaxSteps
	}
	return c
}
