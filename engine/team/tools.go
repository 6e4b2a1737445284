package team

import (
	"embed"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

//go:embed templates/*.txt
var descriptions embed.FS

// describe is the description of a tool, by the name of its file; the golden files
// cover every name.
func describe(name string) string {
	text, _ := descriptions.ReadFile("templates/" + name + ".txt")
	return strings.TrimSpace(string(text))
}

// schema is the subset of JSON Schema that the workflow tools use.
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

// workflowTool is the tool of an action as it is offered now. A vote's enum names the
// agents with an answer shown.
func (r *rules) workflowTool(action coordination.Action) llm.Tool {
	name := string(action)
	switch action {
	case coordination.NewAnswer:
		return tool(name, describe(r.task.answerDescription()), schema{
			Properties: map[string]property{"content": {Type: "string", Description: "The complete answer."}},
			Required:   []string{"content"},
		})
	case coordination.Vote:
		description := name
		if r.task.Alone {
			description = "vote_alone"
		}
		return tool(name, describe(description), schema{
			Properties: map[string]property{
				"agent_id": {Type: "string", Description: "Whose answer you vote for.", Enum: r.electable()},
				"reason":   {Type: "string", Description: "What decided it, in a sentence or two."},
			},
			Required: []string{"agent_id", "reason"},
		})
	case coordination.Stop:
		description, owned := name, "your part"
		if r.task.Alone {
			description, owned = "stop_alone", "the work"
		}
		return tool(name, describe(description), schema{
			Properties: map[string]property{
				"summary": {Type: "string", Description: "What you have done, and what is missing if anything is."},
				"status":  {Type: "string", Description: "complete: " + owned + " is done; blocked: you cannot go on.", Enum: []string{string(coordination.Complete), string(coordination.Blocked)}},
			},
			Required: []string{"summary", "status"},
		})
	case coordination.Submit:
		return tool(name, describe(name), schema{Properties: map[string]property{}, Required: []string{}})
	default:
		return tool(name, describe(name), schema{
			Properties: map[string]property{
				"reason":       {Type: "string", Description: "What is wrong with the final answer."},
				"instructions": {Type: "string", Description: "What the next attempt has to do differently."},
			},
			Required: []string{"reason", "instructions"},
		})
	}
}

// answerDescription names the description of new_answer in this step.
func (t task) answerDescription() string {
	switch {
	case t.Purpose == coordination.Present:
		return "new_answer_final"
	case t.divided() && !t.Alone:
		return "new_answer_part"
	default:
		return "new_answer"
	}
}

func tool(name, description string, s schema) llm.Tool {
	s.Type = "object"
	return llm.Tool{Name: name, Description: description, Parameters: marshal(s)}
}

// electable names the agents that can be voted for.
func (r *rules) electable() []string {
	names := make([]string, 0, len(r.memory.answers))
	for _, a := range r.memory.answers {
		names = append(names, a.agent())
	}
	return names
}
