package team

import (
	"embed"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/team/evaluator"
)

//go:embed templates/*.txt
var descriptions embed.FS

// describe returns the description of a tool by the name of its file. The golden files cover
// every name.
func describe(name string) string {
	text, _ := descriptions.ReadFile("templates/" + name + ".txt")
	return strings.TrimSpace(string(text))
}

// workflowTool returns the tool of an action as it is offered now. The enum of a vote lists
// the agents with an answer shown.
func (r *rules) workflowTool(action coordination.Action) llm.Tool {
	name := string(action)
	switch action {
	case coordination.NewAnswer:
		return llm.NewTool(name, describe(r.task.answerDescription()), map[string]llm.Property{
			"content": {Type: "string", Description: "The complete answer."},
		}, "content")
	case coordination.Vote:
		description := name
		if r.task.Alone {
			description = "vote_alone"
		}
		properties := map[string]llm.Property{
			"agent_id": {Type: "string", Description: "Whose answer you vote for.", Enum: r.electable()},
			"reason":   {Type: "string", Description: "What decided it, in a sentence or two."},
		}
		if r.task.Confidence {
			properties["confidence"] = llm.Property{Type: "number", Description: "How likely this answer is right, from 0 to 1."}
		}
		return llm.NewTool(name, describe(description), properties, "agent_id", "reason")
	case coordination.Stop:
		description, owned := name, "your part"
		if r.task.Alone {
			description, owned = "stop_alone", "the work"
		}
		statuses := []string{string(coordination.Complete), string(coordination.Blocked)}
		return llm.NewTool(name, describe(description), map[string]llm.Property{
			"summary": {Type: "string", Description: "What you have done, and what is missing if anything is."},
			"status":  {Type: "string", Description: "complete: " + owned + " is done; blocked: you cannot go on.", Enum: statuses},
		}, "summary", "status")
	case coordination.SubmitEvaluation:
		return llm.NewTool(name, describe(name), map[string]llm.Property{
			"packet":     {Type: "object", Description: "The findings. A text under each of " + strings.Join(evaluator.Parts, ", ") + "."},
			"verdict":    {Type: "object", Description: `The verdict, iterate or converged, and a score from 0 to 10 for every criterion: {"verdict": "iterate", "scores": {"E1": 7}}.`},
			"next_tasks": {Type: "object", Null: true, Description: evaluator.TasksForm},
		}, "packet", "verdict", "next_tasks")
	case coordination.Submit:
		return llm.NewTool(name, describe(name), map[string]llm.Property{})
	default:
		return llm.NewTool(name, describe(name), map[string]llm.Property{
			"reason":       {Type: "string", Description: "What is wrong with the final answer."},
			"instructions": {Type: "string", Description: "What the next attempt has to do differently."},
		}, "reason", "instructions")
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

// electable returns the names of the agents that can be voted for.
func (r *rules) electable() []string {
	names := make([]string, 0, len(r.memory.answers))
	for _, a := range r.memory.answers {
		names = append(names, a.agent())
	}
	return names
}
