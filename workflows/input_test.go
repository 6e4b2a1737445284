package workflows_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/workflows"
)

// order is an input with every shape of field.
type order struct {
	Name  string            `json:"name"`
	Count int               `json:"count,omitempty"`
	Fresh *bool             `json:"fresh"`
	Tags  []string          `json:"tags"`
	Lines []line            `json:"lines"`
	Where *place            `json:"where"`
	Notes map[string]string `json:"notes"`
	Raw   json.RawMessage   `json:"raw"`
	extras
	Hidden    string `json:"-"`
	Continued place  `json:"continued"`
}

type extras struct {
	Colour string `json:"colour"`
}

type line struct {
	Item string `json:"item"`
}

type place struct {
	Street string `json:"street"`
}

// Faults of an input name the place of the key and the nearest valid key, but no Go type.
func TestDecode(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{"name":"a","count":1,"fresh":true,"tags":["x"],"lines":[{"item":"i"}],"where":{"street":"s"},"notes":{"any":"key"},"raw":{"any":1},"colour":"red"}`: "",
		`{}`:                                    "",
		`null`:                                  "",
		`{"NAME":"a"}`:                          "",
		`{"continued":{"anything":1}}`:          "",
		`{"naem":"a"}`:                          `unknown key "naem": did you mean name?`,
		`{"lines":[{"item":"i"},{"itme":"i"}]}`: `unknown key "lines[1].itme": did you mean item?`,
		`{"where":{"stret":"s"}}`:               `unknown key "where.stret": did you mean street?`,
		`{"color":"red"}`:                       `unknown key "color": did you mean colour?`,
		`{"Hidden":"x"}`:                        `unknown key "Hidden"`,
		`{"qqqqqqqq":1}`:                        `valid: name, count, fresh, tags, lines, where, notes, raw, colour`,
		`"text"`:                                "it is a string, not an object",
		`5`:                                     "it is a number, not an object",
		`[1]`:                                   "it is an array, not an object",
		`true`:                                  "it is a boolean, not an object",
		`{"name":5}`:                            "name is a number, not a string",
		`{"name":true}`:                         "name is a boolean, not a string",
		`{"count":"5"}`:                         "count is a string, not a number that fits",
		`{"count":1.5}`:                         "count is a number, not a number that fits",
		`{"fresh":"yes"}`:                       "fresh is a string, not a boolean",
		`{"tags":"x"}`:                          "tags is a string, not an array",
		`{"lines":{}}`:                          "lines is an object, not an array",
		`{"where":"here"}`:                      "where is a string, not an object",
		`{"notes":[]}`:                          "notes is an array, not an object",
		`{"name":`:                              "unexpected end of JSON input",
	} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			var in order
			faults := workflows.Decode([]byte(document), &in)
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.ExecuteWorkflow(func(ctx workflow.Context) error { return faults.Err("an order", `{"name":"…"}`) })
			if want == "" {
				require.NoError(t, env.GetWorkflowError())
				return
			}
			var refused *temporal.ApplicationError
			require.ErrorAs(t, env.GetWorkflowError(), &refused)
			require.Equal(t, workflows.InvalidInput, refused.Type())
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Message(), want)
			require.NotContains(t, refused.Message(), "drive_test")
		})
	}
}

// A valid part of a malformed input is kept, so that the workflow can name its run.
func TestDecode_keepsTheRest(t *testing.T) {
	t.Parallel()
	var in order
	workflows.Decode([]byte(`{"name":"a","count":"x","colour":"red"}`), &in)
	require.Equal(t, "a", in.Name)
	require.Equal(t, "red", in.Colour)
}

// A request keeps nothing of an earlier decoding.
func TestRequest_UnmarshalJSON(t *testing.T) {
	t.Parallel()
	in := workflows.Request{Text: "old", Agent: "agent_a"}
	require.NoError(t, json.Unmarshal([]byte(`{"text":"new"}`), &in))
	require.Equal(t, "new", in.Text)
	require.Empty(t, in.Agent)
	require.NoError(t, json.Unmarshal([]byte(`{"results":[{"id":"c1","content":"4"}]}`), &in))
	require.Empty(t, in.Text)
	require.Len(t, in.Results, 1)
	require.NoError(t, json.Unmarshal([]byte(`"text"`), &in), "a request is refused with a reason, not undecodable")
	require.Empty(t, in.Results)
}
