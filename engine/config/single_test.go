package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A step is of exactly one agent, which may leave to the directory who it is.
func TestParseSingle(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"agent: {id: agent_q, backend: {model: m}}":                    "agent_q",
		"agents: [{id: agent_q, backend: {model: m}}]":                 "agent_q",
		"agent: {backend: {model: m}}":                                 "",
		"agents: [{backend: {model: m}}]":                              "",
		`{"agent": {"backend": {"type": "offline"}}}`:                  "",
		"agent: {backend: {model: m}}\norchestrator: {pacing: rounds}": "",
	} {
		team, err := ParseSingle("team.yaml", []byte(text))
		require.NoError(t, err, text)
		require.Len(t, team.Agents, 1)
		require.Equal(t, want, team.Agents[0].ID, text)
	}
	for text, says := range map[string]string{
		"agents: [{id: a, backend: {model: m}}, {id: b, backend: {model: m}}]": "2 agents are too many",
		"agents: []": "no agents",
		"":           "empty",
		"agent: {id: Agent, backend: {model: m}}": "not an agent id",
		`agent: {id: "", backend: {model: m}}`:    "not an agent id",
		"agent: {backend: {}}":                    "model",
		"agent: {bakend: {model: m}}":             "unknown key",
	} {
		_, err := ParseSingle("team.yaml", []byte(text))
		require.ErrorContains(t, err, says, text)
	}
	_, err := Parse("team.yaml", []byte("agent: {backend: {model: m}}"), Local)
	require.ErrorContains(t, err, "every agent has an id of its own", "a team's agents have IDs")
}
