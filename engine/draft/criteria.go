package draft

import (
	"encoding/json"
	"fmt"
	"strings"

	"conclave/engine/config"
)

const criteriaSystem = `You write the criteria by which a team judges answers to a task. You do not solve the task.

- Each criterion names one observable quality of an answer to this very task, in one sentence that a judge can answer with a score from 0 to 10.
- The criteria do not overlap, and together they cover everything that the task asks for.
- Exactly one criterion is primary: the quality without which an answer is worth nothing. The others are standard, or stretch for a quality beyond what is asked.
- verify_by says how a judge checks the criterion by doing something, not by reading claims.
- anti_patterns name the tempting ways to look good without being good.`

// Criteria is the form that requests from least to most evaluation criteria for a task.
func Criteria(task string, least, most int, fallback config.Criteria) Form[config.Criteria] {
	criterion := object(map[string]schema{
		"text":          str("The criterion, as one sentence."),
		"category":      {Type: "string", Enum: []string{"primary", "standard", "stretch"}},
		"primary":       {Type: "boolean", Description: "True for the one primary criterion."},
		"verify_by":     str("How a judge checks it."),
		"anti_patterns": list(str("A way to look good without being good.")),
	}, "text", "category", "primary", "verify_by", "anti_patterns")
	criteria := list(criterion)
	criteria.MinItems, criteria.MaxItems = least, most
	user := fmt.Sprintf("# The task\n\n%s\n\n# Your turn\n\nWrite %s for answers to this task.", task, count(least, most, "criterion", "criteria"))
	return Form[config.Criteria]{
		Request: request("evaluation_criteria", "The criteria by which answers are judged.",
			object(map[string]schema{"criteria": criteria}, "criteria"), criteriaSystem, user),
		Parse:    func(raw json.RawMessage) (config.Criteria, error) { return parseCriteria(raw, least, most) },
		Fallback: fallback,
	}
}

// parseCriteria reads criteria in the form of a criteria file. Exactly one is primary: if
// several are, the first.
func parseCriteria(raw json.RawMessage, least, most int) (config.Criteria, error) {
	criteria, err := config.ParseCriteria("the reply", raw)
	if err != nil {
		return nil, err
	}
	if n := len(criteria); n < least || n > most {
		return nil, fmt.Errorf("the reply has %d criteria; asked were %s", n, count(least, most, "criterion", "criteria"))
	}
	var marks struct {
		Criteria []struct {
			Primary any `json:"primary"`
		} `json:"criteria"`
	}
	_ = json.Unmarshal(raw, &marks) // if there are no marks, the categories count
	primary := -1
	for i := range criteria {
		if i < len(marks.Criteria) && marks.Criteria[i].Primary == true {
			criteria[i].Category = "primary"
		}
		switch {
		case criteria[i].Category != "primary":
		case primary >= 0:
			criteria[i].Category = "standard"
		default:
			primary = i
		}
	}
	if primary < 0 {
		return nil, fmt.Errorf("none of the %d criteria is primary", len(criteria))
	}
	return criteria, repeated(criteria)
}

// repeated returns an error if two criteria have the same meaning.
func repeated(criteria config.Criteria) error {
	seen := map[string]bool{}
	for _, c := range criteria {
		key := strings.ToLower(strings.Join(strings.Fields(c.Text), " "))
		if seen[key] {
			return fmt.Errorf("two criteria are the same: %s", c.Text)
		}
		seen[key] = true
	}
	return nil
}

func count(least, most int, one, many string) string {
	switch {
	case least == most && most == 1:
		return "1 " + one
	case least == most:
		return fmt.Sprintf("%d %s", most, many)
	}
	return fmt.Sprintf("%d to %d %s", least, most, many)
}
