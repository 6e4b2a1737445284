package page

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// The page has a table of the fields of answers that are data, by the schema of the session, with
// those that differ marked. Values are shown as they are, and as nothing else.
func TestDataOf(t *testing.T) {
	t.Parallel()
	p := stage.Named(t, "dissent")
	key := p.Layout.File("session.json")
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), p.Store, key)
	require.NoError(t, err)
	require.Empty(t, dataOf(sessionOf(t, p)), "answers are texts")

	session.AnswerSchema = json.RawMessage(`{"type": "object", "properties": {"why": {"x-conclave-ignore": true}}, "required": ["by"]}`)
	require.NoError(t, artifact.PutJSON(t.Context(), p.Store, key, session))
	for agent, data := range map[string]string{
		"agent_a": `{"by": "<script>alert(1)</script>", "minutes": 5, "why": "a", "<img src=x onerror=alert(2)>\u202e": 1}`, "agent_b": `{"by": "bus\u202e", "minutes": 5.0, "why": "b"}`, "agent_c": `{"on": "foot"}`,
	} {
		key := p.Layout.Step(agent, 1, "answer.json")
		answer, err := artifact.ReadJSON[artifact.Answer](t.Context(), p.Store, key)
		require.NoError(t, err)
		answer.Data = json.RawMessage(data)
		require.NoError(t, artifact.PutJSON(t.Context(), p.Store, key, answer))
	}
	table := dataOf(sessionOf(t, p))
	require.Equal(t, dataTable{
		Asked: true, Labels: []string{"agent2.1", "agent1.1"}, // the decision first; what does not fit is left out
		Rows: []dataRow{
			{llm.Difference{Path: "/<img src=x onerror=alert(2)>\u202e", Values: []string{"", "1"}}, true},
			{llm.Difference{Path: "/by", Values: []string{"\"bus\u202e\"", `"<script>alert(1)</script>"`}}, true},
			{llm.Difference{Path: "/minutes", Values: []string{"5", "5"}}, false},
		},
	}, table)

	html, err := executeTemplate("data", &view{Data: table})
	require.NoError(t, err)
	require.Contains(t, string(html), `<strong>&#34;&lt;script&gt;alert(1)&lt;/script&gt;&#34;</strong>`)
	require.Contains(t, string(html), `/&lt;img src=x onerror=alert(2)&gt;`, "keys are a stranger's, too")
	require.NotContains(t, string(html), "<script>")
	require.NotContains(t, string(html), "<img")
	require.NotContains(t, string(html), "\u202e")
}
