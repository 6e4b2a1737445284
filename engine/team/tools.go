package team

import (
	_ "embed"
	"strings"

	"conclave/engine/llm"
)

var (
	//go:embed templates/new_answer.txt
	newAnswerDescription string
	//go:embed templates/vote.txt
	voteDescription string
)

// schema is the part of JSON Schema that the workflow tools need.
type schema struct {
	Type                 string              `json:"type"`
	Properties           map[string]property `json:"properties"`
	Required             []string            `json:"required"`
	AdditionalProperties bool                `json:"additionalProperties"`
}

type property struct {
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitempty"`
}

// Offer returns the workflow tools open to the step. The enum of a vote is the
// agents whose answers are shown.
func (r *Rules) Offer() []llm.Tool {
	var tools []llm.Tool
	if r.task.canAnswer() {
		tools = append(tools, tool(KindNewAnswer, newAnswerDescription, schema{
			Properties: map[string]property{"content": {Type: "string", Description: "The complete answer."}},
			Required:   []string{"content"},
		}))
	}
	if r.task.canVote() {
		tools = append(tools, tool(KindVote, voteDescription, schema{
			Properties: map[string]property{
				"agent_id": {Type: "string", Description: "Whose answer you vote for.", Enum: r.electable()},
				"reason":   {Type: "string", Description: "What decided it, in a sentence or two."},
			},
			Required: []string{"agent_id", "reason"},
		}))
	}
	return tools
}

func tool(name, description string, s schema) llm.Tool {
	s.Type = "object"
	return llm.Tool{Name: name, Description: strings.TrimSpace(description), Parameters: marshal(s)}
}

// electable names the agents that can be voted for.
func (r *Rules) electable() []string {
	names := make([]string, 0, len(r.task.Answers))
	for _, a := range r.task.Answers {
		names = append(names, a.agent())
	}
	return names
}
