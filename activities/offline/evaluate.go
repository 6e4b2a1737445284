package offline

import (
	"encoding/json"
	"regexp"

	"conclave/engine/llm"
)

// criterion matches the ID of a criterion in the prompt of an evaluation.
var criterion = regexp.MustCompile(`(?m)^- (E[0-9]+)\b`)

var packetParts = []string{
	"criteria_interpretation", "criterion_findings", "cross_answer_synthesis", "preserve", "improvement_spec", "verification_plan", "evidence_gaps",
}

// evaluation submits an evaluation that checked nothing, after which the agent votes.
func evaluation(req llm.Request) llm.ToolCall {
	packet, scores := map[string]string{}, map[string]float64{}
	for _, part := range packetParts {
		packet[part] = "The offline model evaluates by a fixed rule: nothing was checked."
	}
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		for _, found := range criterion.FindAllStringSubmatch(message.Content, -1) {
			scores[found[1]] = 8
		}
	}
	arguments, _ := json.Marshal(map[string]any{ // texts and numbers always have a JSON form
		"packet": packet, "verdict": map[string]any{"verdict": "converged", "scores": scores}, "next_tasks": nil,
	})
	return llm.ToolCall{Name: "submit_evaluation", Arguments: string(arguments)}
}
