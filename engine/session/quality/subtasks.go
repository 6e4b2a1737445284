package quality

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"conclave/engine/config"
)

// Subtask is an agent's part of divided work. Criteria apply to this part; if empty, those of
// the session apply.
type Subtask struct {
	Subtask  string          `json:"subtask"`
	Criteria config.Criteria `json:"criteria,omitempty"`
}

const subtasksSystem = `You divide a task among the members of a team. You do not solve it.

- Each part is a piece of the result that one member can own, described in a few sentences: what it covers, what it does not, and where it touches the other parts.
- Together the parts are the whole task. They overlap nowhere, and are about equally demanding.
- No part consists of planning, reviewing or joining: a presenter joins the parts at the end.
- The criteria of a part say by which observable qualities its owner judges it.`

// Subtasks is the form that requests a part of the task for each of n agents, in the order of their numbers.
func Subtasks(task string, n int) Form[[]Subtask] {
	criterion := objectSchema(map[string]schema{
		"text":      textSchema("The criterion, as one sentence."),
		"category":  {Type: "string", Enum: []string{"primary", "standard", "stretch"}},
		"verify_by": textSchema("How its owner checks it."),
	}, "text", "category", "verify_by")
	part := objectSchema(map[string]schema{"subtask": textSchema("The part, as its owner reads it."), "criteria": listSchema(criterion)}, "subtask", "criteria")
	properties := map[string]schema{}
	for _, name := range agentNames(n) {
		properties[name] = part
	}
	user := fmt.Sprintf("# The task\n\n%s\n\n# Your turn\n\nDivide the task among %s.", task, strings.Join(agentNames(n), ", "))
	return Form[[]Subtask]{
		Request:  newRequest("subtasks", "A part of the task for each member of the team.", objectSchema(properties, agentNames(n)...), subtasksSystem, user),
		Parse:    func(raw json.RawMessage) ([]Subtask, error) { return parseSubtasks(raw, n) },
		Fallback: EqualParts(n),
	}
}

// parseSubtasks reads a string or a Subtask for each agent.
func parseSubtasks(raw json.RawMessage, n int) ([]Subtask, error) {
	parts, err := perAgent(raw, n, func(value json.RawMessage) (Subtask, error) {
		var part struct {
			Subtask  string          `json:"subtask"`
			Criteria json.RawMessage `json:"criteria"`
		}
		if json.Unmarshal(value, &part.Subtask) != nil && json.Unmarshal(value, &part) != nil || strings.TrimSpace(part.Subtask) == "" {
			return Subtask{}, errors.New("the subtask is no text")
		}
		s := Subtask{Subtask: strings.TrimSpace(part.Subtask)}
		if len(part.Criteria) > 0 && string(part.Criteria) != "null" {
			var err error
			if s.Criteria, err = config.ParseCriteria("the reply", part.Criteria); err != nil {
				return Subtask{}, err
			}
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		for j := range i {
			if parts[j].Subtask == p.Subtask {
				return nil, fmt.Errorf("%s and %s have the same subtask", agentName(j+1), agentName(i+1))
			}
		}
	}
	return parts, nil
}

// EqualParts returns the parts of a task that a model has not divided.
func EqualParts(n int) []Subtask {
	if n == 1 {
		return []Subtask{{Subtask: "The whole task."}}
	}
	parts := make([]Subtask, n)
	for i := range parts {
		parts[i].Subtask = fmt.Sprintf("Part %d of %d: divide the task in your mind into %d parts of about equal weight, in the order in which the task names them, and do part %d.", i+1, n, n, i+1)
	}
	return parts
}

const criteriaSystem = `You write the criteria by which a team judges answers to a task. You do not solve the task.

- Each criterion names one observable quality of an answer to this very task, in one sentence that a judge can answer with a score from 0 to 10.
- The criteria do not overlap, and together they cover everything that the task asks for.
- Exactly one criterion is primary: the quality without which an answer is worth nothing. The others are standard, or stretch for a quality beyond what is asked.
- verify_by says how a judge checks the criterion by doing something, not by reading claims.
- anti_patterns name the tempting ways to look good without being good.`
