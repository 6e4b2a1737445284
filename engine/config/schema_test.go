package config

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	data, err := Schema()
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(data, &s))
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	require.NoError(t, err)
	return resolved
}

// instance converts a YAML or JSON text for a schema validator.
func instance(t *testing.T, text string) (v any, err error) {
	t.Helper()
	root, err := ReadDocument("team.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	d := newDecoder("team.yaml", Local, teamType)
	v = d.decodeAny(root, "")
	if err := d.problems.inTextOrder(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	require.NoError(t, err)
	v = nil
	err = json.Unmarshal(data, &v)
	return v, err
}

func TestSchema_acceptsValidTeams(t *testing.T) {
	t.Parallel()
	canonical, err := Default().Canonical()
	require.NoError(t, err)
	for name, text := range map[string]string{
		"the starter file":   string(Starter(nil)),
		"the contract":       contract,
		"the canonical form": string(canonical),
		"one agent":          "agent: {id: agent_a, backend: {model: m}}",
		"an offline agent":   "agents: [{id: agent_a, backend: {type: offline}}]",
		"empty sections":     "agents: [{id: agent_a, backend: {model: m, provider: }, tools: , mcp_servers: }]\norchestrator:\n  budget:\ntimeout_settings:\n",
		"criteria":           "agents: [{id: agent_a, backend: {model: m}}]\norchestrator: {coordination: {checklist_criteria_inline: [{text: a, category: stretch, verify_by: b, anti_patterns: [c], score_anchors: {1: d}}, {name: e}, {description: f}]}}",
		"MCP servers":        "agents: [{id: agent_a, backend: {model: m}, mcp_servers: [a, {name: b, command: c, args: [d], env: {E: f}}]}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := instance(t, text)
			require.NoError(t, err)
			require.NoError(t, schema(t).Validate(v))
		})
	}
}

func TestSchema_refusesMalformedTeams(t *testing.T) {
	t.Parallel()
	// Cases that a schema cannot express.
	beyond := []string{
		"an empty model", "a name with control characters", "a duplicate id", "a duplicate id like a key", "a literal key as the variable",
		"a variable of the worker", "a reference to a variable", "literal keys in params", "literal keys in params in other forms",
		"an invalid base_url", "reserved params", "contradicting evaluators", "an unknown preset", "an evaluator without a checklist", "a ceiling without an evaluator", "an evaluator without a model", "a presenter that does not exist",
		"decomposition with subtasks missing", "decomposition without a decomposer", "a subtask in voting mode",
		"disabled updates that restart steps", "more active agents than the team has", "more agents to begin than the team has", "a first answer that agrees with itself", "a judge of equality", "a budget of zero", "an MCP server twice", "more criteria at least than at most", "a session on a cluster that defines (cluster)",
		"a session on a cluster with settings of a server (cluster)",
	}
	resolved := schema(t)
	_, cases := readBroken(t)
	for _, c := range cases {
		v, err := instance(t, c.text)
		if err != nil {
			continue // unreadable
		}
		if slices.Contains(beyond, c.title) {
			require.NoError(t, resolved.Validate(v), c.title)
		} else {
			require.Error(t, resolved.Validate(v), c.title)
		}
	}
}

func TestPipelineSchema(t *testing.T) {
	t.Parallel()
	data, err := PipelineSchema()
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(data, &s))
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	require.NoError(t, err)
	for name, text := range map[string]string{
		"writing": writing, "outcomes": outcomes,
		"a team in place": "start: d\nsteps: [{name: d, kind: session, config: {agents: [{id: a, backend: {model: m}}]}, max_visits: null}]",
	} {
		v, err := instance(t, text)
		require.NoError(t, err, name)
		require.NoError(t, resolved.Validate(v), name)
		_, _, err = ParsePipeline("p.yaml", []byte(text), Local)
		require.NoError(t, err, name)
	}
	for name, text := range map[string]string{
		"unknown key":       "start: a\nsteps: [{name: a, nxt: b}]",
		"no steps":          "start: a",
		"an unknown kind":   "start: a\nsteps: [{name: a, kind: tool}]",
		"no tool":           "start: a\nsteps: [{name: a, kind: tools, calls: [{args: {}}]}]",
		"history of a kind": "start: a\nsteps: [{name: a, history: some}]",
		"a wrong exit code": "start: a\nsteps: [{name: a, next: [{when: {exit_code: 300}, to: a}]}]",
	} {
		v, err := instance(t, text)
		require.NoError(t, err, name)
		require.Error(t, resolved.Validate(v), name)
	}
}
