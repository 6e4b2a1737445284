package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

func TestCoordination_defaults(t *testing.T) {
	t.Parallel()
	lead := 2
	require.Equal(t, coordination.Config{
		Agents:           []string{"agent_a", "agent_b", "agent_c"},
		OnSplit:          "revote",
		MaxRevotes:       1,
		MaxStepsPerAgent: 12,
		OnAgentFailure:   "continue",
		Mode:             "voting",
		Pacing:           "rounds",
		Updates:          coordination.Inject,
		UpdatesPerStep:   2,
		LeadCap:          &lead,
		Strategy:         "winner_reuse",
		MinActive:        1,
		Agree:            "normalized",
		Ballot:           "text",
		Skill:            map[string]float64{},
	}, Default().Coordination())
}

func TestCoordination_keys(t *testing.T) {
	t.Parallel()
	yes, three, usd, presenter := true, 3, 1.5, "agent_b"
	for name, tt := range map[string]struct {
		set   func(*Orchestrator)
		check func(*testing.T, coordination.Config)
	}{
		"no injection": {
			func(o *Orchestrator) { o.DisableInjection = true },
			func(t *testing.T, c coordination.Config) { require.Empty(t, c.Updates) },
		},
		"restart": {
			func(o *Orchestrator) { o.UpdateMode = "restart" },
			func(t *testing.T, c coordination.Config) { require.Equal(t, coordination.Restart, c.Updates) },
		},
		"no fairness": {
			func(o *Orchestrator) { o.FairnessEnabled = false },
			func(t *testing.T, c coordination.Config) {
				require.Nil(t, c.LeadCap)
				require.Zero(t, c.UpdatesPerStep)
			},
		},
		"deferred": {
			func(o *Orchestrator) { o.DeferPeerUpdatesUntilRestart = true },
			func(t *testing.T, c coordination.Config) {
				require.True(t, c.DeferUpdates)
				require.False(t, c.BeforeChecklist)
			},
		},
		"deferred, with a window before the checklist": {
			func(o *Orchestrator) {
				o.DeferPeerUpdatesUntilRestart, o.AllowMidstreamPeerUpdatesBeforeChecklistSubmit = true, &yes
				o.VotingSensitivity = "checklist_gated"
			},
			func(t *testing.T, c coordination.Config) {
				require.True(t, c.DeferUpdates)
				require.True(t, c.BeforeChecklist)
			},
		},
		"a window without checklists": {
			func(o *Orchestrator) {
				o.DeferPeerUpdatesUntilRestart, o.AllowMidstreamPeerUpdatesBeforeChecklistSubmit = true, &yes
			},
			func(t *testing.T, c coordination.Config) { require.False(t, c.BeforeChecklist) },
		},
		"limits": {
			func(o *Orchestrator) {
				o.MaxNewAnswersPerAgent, o.MaxNewAnswersGlobal = &three, &three
				o.Budget.MaxCostUSD, o.Budget.MaxTotalTokens = &usd, &three
			},
			func(t *testing.T, c coordination.Config) {
				require.Equal(t, 3, c.AnswersPerAgent)
				require.Equal(t, 3, c.AnswersGlobal)
				require.Equal(t, coordination.Allowance{USD: 1.5, Tokens: 3}, c.Budget)
			},
		},
		"the end": {
			func(o *Orchestrator) {
				o.CoordinationMode, o.Pacing, o.OnAgentFailure = "decomposition", "continuous", "park"
				o.DeferVotingUntilAllAnswered, o.SkipVoting, o.SkipFinalPresentation = true, true, true
				o.FinalAnswerStrategy, o.PresenterAgent, o.MaxOrchestrationRestarts = "synthesize", &presenter, 2
			},
			func(t *testing.T, c coordination.Config) {
				require.Equal(t, coordination.Decomposition, c.Mode)
				require.Equal(t, "continuous", c.Pacing)
				require.Equal(t, "park", c.OnAgentFailure)
				require.True(t, c.DeferVoting && c.SkipVoting && c.SkipPresentation)
				require.Equal(t, "synthesize", c.Strategy)
				require.Equal(t, "agent_b", c.Presenter)
				require.Equal(t, 2, c.MaxRestarts)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			team := Default()
			tt.set(&team.Orchestrator)
			tt.check(t, team.Coordination())
		})
	}
}

func TestCoordination_refinement(t *testing.T) {
	t.Parallel()
	team := Default()
	o := &team.Orchestrator
	o.MinActiveAgents, o.PeerVisibility, o.AllowSoloRefinement, o.Agree = 2, "none", true, "exact"
	c := team.Coordination()
	require.Equal(t, 2, c.MinActive)
	require.True(t, c.Secluded)
	require.True(t, c.Solo)
	require.Equal(t, "exact", c.Agree)
}

func TestCoordination_decidingSooner(t *testing.T) {
	t.Parallel()
	team, rounds, start, least := Default(), 3, 2, 0.6
	o := &team.Orchestrator
	require.Zero(t, team.Coordination().QuorumGrace, "without a quorum")
	o.MaxRounds, o.DecideWhen, o.EarlyAgreement = &rounds, "quorum", true
	o.TeamSize.Start, o.TeamSize.Step, o.ActWhen.MinSupport = &start, 2, &least
	c := team.Coordination()
	require.True(t, c.Quorum && c.Early)
	require.Equal(t, []int{3, 30, 2, 2}, []int{c.MaxRounds, c.QuorumGrace, c.Start, c.Grow})
	require.InDelta(t, 0.6, c.MinSupport, 1e-9)
}
