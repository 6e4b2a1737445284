package config

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const withSchema = `
agent: {id: agent_a, backend: {type: offline}}
answer_schema:
  type: object
  properties:
    why: {type: string}
    choice: {enum: [tabs, 'spaces', 3, 1.50, true, null]}
    tags: {type: array, x-conclave-set: true}
  required: [choice]
`

// The keys keep their order, which models follow, and a team is read back as it was written.
func TestParse_answerSchema(t *testing.T) {
	t.Parallel()
	team := parse(t, withSchema)
	canonical, err := team.Canonical()
	require.NoError(t, err)
	require.Contains(t, string(canonical), `"answer_schema":{"type":"object","properties":{"why":{"type":"string"},`+
		`"choice":{"enum":["tabs","spaces",3,1.50,true,null]},"tags":{"type":"array","x-conclave-set":true}},"required":["choice"]}`)
	again, err := Parse("again", canonical, Cluster)
	require.NoError(t, err)
	require.Equal(t, team.Hash(), again.Hash())
}

func TestTeam_Agreement(t *testing.T) {
	t.Parallel()
	require.Equal(t, "normalized", Default().Agreement())
	require.Equal(t, "data", parse(t, withSchema).Agreement())
	require.Equal(t, "data", parse(t, withSchema).Coordination().Agree)
	for _, agree := range []string{"exact", "normalized", "data"} {
		team := parse(t, withSchema+"orchestrator: {agree: "+agree+"}\n")
		require.Equal(t, agree, team.Agreement())
		canonical, err := team.Canonical()
		require.NoError(t, err)
		require.Contains(t, string(canonical), `"agree":"`+agree+`"`, "the key is kept where it is not the default")
	}
}

func TestParse_refusesAnswerSchemas(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"answer_schema: {type: strng}":                   `team.yaml:2:16: answer_schema: it is not a JSON Schema: at /type: `,
		"answer_schema: schema.json":                     `answer_schema: it is not a JSON object; give a schema such as {"type": "object"`,
		"answer_schema: {type: [object, object]}":        `answer_schema: it is not a JSON Schema`,
		"answer_schema: {$ref: 'other.json'}":            `answer_schema: it is not a JSON Schema: it refers to another document, other.json; put what is there under $defs`,
		"answer_schema: {type: object, type: object}":    `answer_schema: at /type: the key is there twice`,
		"answer_schema: {maximum: 1e999}":                `answer_schema: at /maximum: the number is too large`,
		"answer_schema: {}\norchestrator: {agree: datt}": `did you mean data?`,
	} {
		_, err := Parse("team.yaml", []byte("agent: {id: a, backend: {type: offline}}\n"+config), Local)
		require.ErrorContains(t, err, want, config)
	}
	const divided = `
agents: [{id: a, backend: {type: offline}, subtask: x}, {id: b, backend: {type: offline}, subtask: y}]
orchestrator: {coordination_mode: decomposition, skip_final_presentation: true}`
	_, err := Parse("team.yaml", []byte("answer_schema: {type: object}"+divided), Local)
	require.ErrorContains(t, err, "team.yaml:3:75: orchestrator.skip_final_presentation: the parts of divided work are texts")
	team, err := Parse("team.yaml", []byte(divided), Local)
	require.NoError(t, err)
	_, err = team.WithSchema(json.RawMessage(`{"type":"object"}`))
	require.EqualError(t, err, "answer_schema: the parts of divided work are texts, and without a presenter nobody gives data; leave orchestrator.skip_final_presentation out of the team")
}
