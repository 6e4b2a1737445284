package team

import (
	"embed"
	"strings"

	"conclave/engine/llm"
)

//go:embed templates/*.txt
var descriptions embed.FS

// describe is the description of a tool, by the name of its file. A missing
// file is one that the golden files would miss.
func describe(name string) string {
	text, _ := descriptions.ReadFile("templates/" + name + ".txt")
	return strings.TrimSpace(string(text))
}

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

// workflowTool is the tool of that kind as it is offered now. The enum of a vote
// is the agents whose answers are shown.
func (r *Rules) workflowTool(kind string) llm.Tool {
	switch kind {
	case KindNewAnswer:
		return tool(kind, describe(r.task.answering()), schema{
			Properties: map[string]property{"content": {Type: "string", Description: "The complete answer."}},
			Required:   []string{"content"},
		})
	case KindVote:
		name := kind
		if r.task.Alone {
			name = "vote_alone"
		}
		return tool(kind, describe(name), schema{
			Properties: map[string]property{
				"agent_id": {Type: "string", Description: "Whose answer you vote for.", Enum: r.electable()},
				"reason":   {Type: "string", Description: "What decided it, in a sentence or two."},
			},
			Required: []string{"agent_id", "reason"},
		})
	case KindStop:
		name, owned := kind, "your part"
		if r.task.Alone {
			name, owned = "stop_alone", "the work"
		}
		return tool(kind, describe(name), schema{
			Properties: map[string]property{
				"summary": {Type: "string", Description: "What you have done, and what is missing if anything is."},
				"status":  {Type: "string", Description: "complete: " + owned + " is done; blocked: you cannot go on.", Enum: []string{Complete, Blocked}},
			},
			Required: []string{"summary", "status"},
		})
	case KindSubmit:
		return tool(kind, describe(kind), schema{Properties: map[string]property{}, Required: []string{}})
	default:
		return tool(kind, describe(kind), schema{
			Properties: map[string]property{
				"reason":       {Type: "string", Description: "What is wrong with the final answer."},
				"instructions": {Type: "string", Description: "What the next attempt has to do differently."},
			},
			Required: []string{"reason", "instructions"},
		})
	}
}

// answering names the description of new_answer in this step.
func (t Task) answering() string {
	switch {
	case t.Purpose == Present:
		return "new_answer_final"
	case t.divided() && !t.Alone:
		return "new_answer_part"
	default:
		return KindNewAnswer
	}
}

func tool(name, description string, s schema) llm.Tool {
	s.Type = "object"
	return llm.Tool{Name: name, Description: description, Parameters: marshal(s)}
}

// electable names the agents that can be voted for.
func (r *Rules) electable() []string {
	names := make([]string, 0, len(r.known.answers))
	for _, a := range r.known.answers {
		names = append(names, a.agent())
	}
	return names
}
