package session

import (
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// coordinationConfig is what the protocol needs of a team's configuration.
func coordinationConfig(t config.Team) coordination.Config {
	o := t.Orchestrator
	c := coordination.Config{
		OnSplit:          o.OnSplit,
		MaxRevotes:       o.MaxRevotes,
		MaxStepsPerAgent: o.MaxStepsPerAgent,
		OnAgentFailure:   o.OnAgentFailure,
		Mode:             o.CoordinationMode,
		Pacing:           o.Pacing,
		AnswersPerAgent:  value(o.MaxNewAnswersPerAgent),
		AnswersGlobal:    value(o.MaxNewAnswersGlobal),
		DeferVoting:      o.DeferVotingUntilAllAnswered,
		SkipVoting:       o.SkipVoting,
		Strategy:         o.FinalAnswerStrategy,
		SkipPresentation: o.SkipFinalPresentation,
		Presenter:        value(o.PresenterAgent),
		MaxRestarts:      o.MaxOrchestrationRestarts,
		Budget:           coordination.Allowance{USD: value(o.Budget.MaxCostUSD), Tokens: int64(value(o.Budget.MaxTotalTokens))},
	}
	for _, agent := range t.Agents {
		c.Agents = append(c.Agents, agent.ID)
	}
	withUpdates(&c, o)
	return c
}

// withUpdates says what reaches a running step, and how far agents may run ahead.
func withUpdates(c *coordination.Config, o config.Orchestrator) {
	if !o.DisableInjection {
		c.Updates = o.UpdateMode
	}
	c.DeferUpdates = o.DeferPeerUpdatesUntilRestart
	// The window before the first checklist is one only where there are checklists.
	c.BeforeChecklist = c.DeferUpdates && value(o.AllowMidstreamPeerUpdatesBeforeChecklistSubmit) && o.VotingSensitivity == team.ChecklistGated
	if o.FairnessEnabled {
		c.LeadCap = &o.FairnessLeadCapAnswers
		c.UpdatesPerStep = o.MaxMidstreamInjectionsPerRound
	}
}

// value is what p points at, else the zero value.
func value[T any](p *T) T {
	var v T
	if p != nil {
		v = *p
	}
	return v
}
