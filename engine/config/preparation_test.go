package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const evaluated = `
agents:
  - {id: agent_a, backend: {model: m}}
  - {id: agent_b, backend: {model: m}}
orchestrator:
  voting_sensitivity: checklist_gated
  coordination:
    criteria_preset: code
    persona_generator: {enabled: true, diversity_mode: methodology, after_first_answer: soften}
    round_evaluator_before_checklist: true
    orchestrator_managed_round_evaluator: true
    round_evaluator_transformation_pressure: aggressive
    round_evaluator: {backend: {model: judge}}
    stop_at_ceiling: true
`

func TestPreparation_isReadAndWritten(t *testing.T) {
	t.Parallel()
	team := parse(t, evaluated)
	c := team.Orchestrator.Coordination
	require.Equal(t, personaGenerator{Enabled: true, DiversityMode: "methodology", AfterFirstAnswer: "soften"}, c.PersonaGenerator)
	require.True(t, team.Evaluates())
	require.True(t, c.StopAtCeiling)
	require.Equal(t, "judge", c.RoundEvaluator.Backend.Model)

	data, err := team.Canonical()
	require.NoError(t, err)
	again, err := Parse("again", data, Local)
	require.NoError(t, err)
	require.Equal(t, team, again)
}

// Keys of a later version are omitted if they have their defaults, so that a team's hash is the
// same in both versions.
func TestPreparation_leavesOutDefaults(t *testing.T) {
	t.Parallel()
	data, err := Default().Canonical()
	require.NoError(t, err)
	for _, key := range []string{"criteria_preset", "diversity_mode", "after_first_answer", "\"round_evaluator\"", "stop_at_ceiling"} {
		require.NotContains(t, string(data), key)
	}
}

func TestTeam_sessionOnly(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"persona_generator", "round_evaluator_before_checklist"}, parse(t, evaluated).SessionOnly())
	require.Empty(t, Default().SessionOnly())
	generated := Default()
	generated.Orchestrator.Coordination.EvaluationCriteriaGenerator.Enabled = true
	require.Equal(t, []string{"evaluation_criteria_generator"}, generated.SessionOnly())
}

func TestTeam_idle(t *testing.T) {
	t.Parallel()
	require.Empty(t, parse(t, evaluated).Idle())
	require.Empty(t, Default().Idle())
	require.Empty(t, Team{}.Idle())
	off := strings.NewReplacer("before_checklist: true", "before_checklist: false", "managed_round_evaluator: true", "managed_round_evaluator: false", "stop_at_ceiling: true", "").Replace(evaluated)
	require.Equal(t, []string{"round_evaluator.backend", "round_evaluator_transformation_pressure"}, parse(t, off).Idle())
}

func TestModels_includeTheEvaluator(t *testing.T) {
	t.Parallel()
	team := parse(t, evaluated)
	models := team.Models()
	require.Len(t, models, 3)
	require.Equal(t, Agent{ID: Evaluator, Backend: Backend{Type: "openai", Model: "judge"}}, models[2])
	require.Len(t, team.Agents, 2)

	agent := team.Agents[0]
	agent.SystemMessage = "Be brief."
	judge := team.EvaluatorOf(agent)
	require.Equal(t, Agent{ID: Evaluator, Backend: models[2].Backend, Tools: builtinTools{Files: true, Shell: ShellOff}}, judge)
	agent.SystemMessage = ""
	require.Equal(t, agent, Default().EvaluatorOf(agent), "without a model of its own")

	offline := team.Offline()
	require.Equal(t, Offline, offline.Models()[2].Backend.Type)
	require.Equal(t, "judge", team.Models()[2].Backend.Model, "the team itself is unchanged")
	require.Len(t, Default().Models(), 3)
}

func TestTeam_criteria(t *testing.T) {
	t.Parallel()
	code, _ := PresetNamed("code")
	require.Equal(t, code.Criteria, parse(t, evaluated).Criteria())
	require.Empty(t, Default().Criteria())
	inline := parse(t, "agents: [{id: a, backend: {model: m}}]\norchestrator: {coordination: {criteria_preset: code, checklist_criteria_inline: [{text: It is short.}]}}")
	require.Equal(t, Criteria{{Text: "It is short.", Category: "standard"}}, inline.Criteria(), "criteria in the file come before a preset")
}

func TestTeam_decomposes(t *testing.T) {
	t.Parallel()
	head := "agents: [{id: a, backend: {model: m}}, {id: b, backend: {model: m}}]\norchestrator: {coordination_mode: "
	require.True(t, parse(t, head+"decomposition}").Decomposes())
	require.False(t, parse(t, head+"voting}").Decomposes())
	require.False(t, parse(t, "agents: [{id: a, backend: {model: m}, subtask: all}]\norchestrator: {coordination_mode: decomposition}").Decomposes())
}
