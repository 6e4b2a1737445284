package checklist

import (
	"encoding/json"

	"conclave/engine/llm"
)

// The names of the tools.
const (
	SubmitChecklist     = "submit_checklist"
	ProposeImprovements = "propose_improvements"
)

// schema is the part of JSON Schema that the tools need. What is inside the
// objects is left open: models are told in words, and what they get wrong in
// the answer to the call.
type schema struct {
	Type                 string              `json:"type"`
	Properties           map[string]property `json:"properties"`
	Required             []string            `json:"required"`
	AdditionalProperties bool                `json:"additionalProperties"`
}

type property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// Tools are the two tools of the checklist; none where the step has none.
func Tools(p Policy) []llm.Tool {
	if !p.Open() {
		return nil
	}
	return []llm.Tool{
		tool(SubmitChecklist, "Score the work by the criteria of the checklist. You are told whether to end your turn or to improve first.", map[string]property{
			"scores":      {"object", "A score from 0 to 10 for every criterion. The arguments look like " + p.normal().form() + "."},
			"report_path": {"string", "The file with your findings, if you wrote one."},
		}, "scores"),
		tool(ProposeImprovements, "Say how you will make the failed criteria of your checklist pass. You get a list of tasks back.", map[string]property{
			"improvements": {"object", `For each failed criterion a list: {"E1": [{"plan": "…", "sources": ["agent2.1"], "impact": "incremental, structural or transformative"}]}.`},
			"preserve":     {"object", `What is good and must stay, by criterion: {"E2": {"what": "…", "source": "agent1.1"}}.`},
		}, "improvements", "preserve"),
	}
}

func tool(name, description string, properties map[string]property, required ...string) llm.Tool {
	return llm.Tool{Name: name, Description: description, Parameters: json.RawMessage(encode(schema{
		Type: "object", Properties: properties, Required: required,
	}))}
}
