package checklist

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/llm"
)

// sheet has the scores of one answer, or of the agent's own work under an empty label.
type sheet struct {
	label   string
	scores  []float64
	missing []string // criteria without a score
}

func (s sheet) sum() float64 {
	total := 0.0
	for _, score := range s.scores {
		total += score
	}
	return total
}

// fault is an error of a payload that the model can correct.
type fault struct {
	code, why string
	missing   []string
}

// sheets reads the scores in the form that the mode requires. They are in the order in which
// the answers are shown.
func (s *State) sheets(scores map[string]json.RawMessage) ([]sheet, *fault) {
	flat := false
	for key := range scores {
		flat = flat || criterionForm.MatchString(key)
	}
	switch {
	case !flat && s.policy.Decomposition:
		return s.ownPart(scores)
	case !flat:
		return s.perAgent(scores)
	}
	several := len(s.policy.Labels) >= 2
	if several && s.answered() && !s.policy.Decomposition {
		return nil, &fault{code: flatScoresDisallowed, why: "Several answers are shown. Score each: " + s.form()}
	}
	label := ""
	if !several && !s.policy.Decomposition {
		label = s.policy.Own
	}
	return s.single(label, scores)
}

// single reads the scores of one answer.
func (s *State) single(label string, fields map[string]json.RawMessage) ([]sheet, *fault) {
	one, bad := s.sheet(label, fields)
	if bad != nil {
		return nil, bad
	}
	if s.answered() && len(one.missing) > 0 {
		return nil, &fault{missingCriteriaScores, "No score for " + strings.Join(one.missing, ", ") + ".", one.missing}
	}
	return []sheet{one}, nil
}

// ownPart finds the scores of the agent's own work among scores by label.
func (s *State) ownPart(scores map[string]json.RawMessage) ([]sheet, *fault) {
	var entries []map[string]json.RawMessage
	for _, key := range slices.Sorted(maps.Keys(scores)) {
		if fields, ok := llm.Object(scores[key]); ok {
			entries = append(entries, fields)
		}
	}
	if s.answered() {
		if fields, ok := s.entry(scores, s.policy.Own); ok {
			entries = []map[string]json.RawMessage{fields}
		}
	}
	if len(entries) != 1 {
		return nil, &fault{code: decompositionScoresInvalid, why: "Score your own part only: " + s.form()}
	}
	return s.single("", entries[0])
}

// perAgent reads the scores of the answers shown. In a recheck, earlier scores replace
// missing ones.
func (s *State) perAgent(scores map[string]json.RawMessage) ([]sheet, *fault) {
	labels, needed := s.policy.Labels, s.policy.Labels
	if len(labels) == 0 {
		labels = slices.Sorted(maps.Keys(scores))
	}
	if s.recheck() {
		needed = s.pending
	}
	var given, all []sheet
	for _, label := range labels {
		if fields, ok := s.entry(scores, label); ok {
			one, bad := s.sheet(label, fields)
			if bad != nil {
				return nil, bad
			}
			given, all = append(given, one), append(all, one)
		} else if before, ok := s.scores[label]; ok && s.recheck() {
			all = append(all, s.earlier(label, before))
		}
	}
	if s.answered() {
		if bad := s.gaps(given, needed); bad != nil {
			return nil, bad
		}
	}
	if len(all) == 0 {
		return s.single("", nil)
	}
	return all, nil
}

// gaps returns a fault for the criteria and labels that the given entries lack.
func (s *State) gaps(given []sheet, needed []string) *fault {
	var criteria, labels []string
	for _, one := range given {
		for _, name := range one.missing {
			criteria = append(criteria, one.label+" "+name)
		}
	}
	for _, label := range needed {
		if !slices.ContainsFunc(given, func(one sheet) bool { return one.label == label }) {
			labels = append(labels, label)
		}
	}
	switch {
	case len(criteria) > 0:
		return &fault{incompleteAgentCriteria, "Every answer needs a score for every criterion. Missing: " + strings.Join(criteria, ", ") + ".", criteria}
	case len(labels) > 0:
		return &fault{missingAgentScores, "No scores for " + strings.Join(labels, ", ") + ". Give them as " + s.form(), labels}
	}
	return nil
}

// entry returns the scores of the answer with a label, which may be listed under the label or
// its agent.
func (s *State) entry(scores map[string]json.RawMessage, label string) (map[string]json.RawMessage, bool) {
	for _, key := range []string{label, agent(label)} {
		if fields, ok := llm.Object(scores[key]); ok {
			return fields, true
		}
	}
	return nil, false
}

// sheet reads one set of scores.
func (s *State) sheet(label string, fields map[string]json.RawMessage) (sheet, *fault) {
	one := sheet{label: label, scores: make([]float64, len(s.policy.Criteria))}
	for i := range s.policy.Criteria {
		raw, ok := criterion(fields, i)
		if !ok {
			one.missing = append(one.missing, id(i))
			continue
		}
		score, ok := number(raw)
		where := strings.TrimSpace(label + " " + id(i))
		switch {
		case !ok:
			return sheet{}, &fault{scoresTypeInvalid, fmt.Sprintf("The score of %s is not a number.", where), []string{where}}
		case score < 0 || score > 10:
			return sheet{}, &fault{scoresOutOfRange, fmt.Sprintf("The score of %s is outside 0 to 10.", where), []string{where}}
		}
		one.scores[i] = score
	}
	return one, nil
}

// earlier returns a sheet with scores that were accepted before.
func (s *State) earlier(label string, before map[string]float64) sheet {
	one := sheet{label: label, scores: make([]float64, len(s.policy.Criteria))}
	for i := range one.scores {
		one.scores[i] = before[id(i)]
	}
	return one
}

// number reads a score, either a number or an object with a number under score.
func number(raw json.RawMessage) (float64, bool) {
	var entry struct{ Score json.RawMessage }
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &entry); err != nil {
			return 0, false
		}
		if raw = entry.Score; len(raw) == 0 || string(raw) == "null" {
			return 0, true
		}
	}
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	score, _ := strconv.ParseFloat(string(raw), 64) // infinite on overflow, which is out of range
	return score, true
}

// form returns an example of the required scores, as a sentence.
func (s *State) form() string { return s.policy.form() + "." }

// criterionForm matches the names of criteria in arguments.
var criterionForm = regexp.MustCompile(`^[EeTt][0-9]+$`)

// criterion returns the value of the criterion at index under any of its names. null counts
// as missing.
func criterion(fields map[string]json.RawMessage, index int) (json.RawMessage, bool) {
	for _, raw := range named(fields, index) {
		if string(raw) != "null" {
			return raw, true
		}
	}
	return nil, false
}

// named returns the values under all names of the criterion at index.
func named(fields map[string]json.RawMessage, index int) []json.RawMessage {
	name := id(index)
	alias := "T" + name[1:]
	var values []json.RawMessage
	for _, key := range []string{name, alias, strings.ToLower(name), strings.ToLower(alias)} {
		if raw, ok := fields[key]; ok {
			values = append(values, raw)
		}
	}
	return values
}

// entry reads an item that models send as an object or, in short form, as the text of the
// object's first field.
func entry(item json.RawMessage, first string) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(item, &fields) != nil || fields == nil {
		return map[string]json.RawMessage{first: item}
	}
	return fields
}

// word reads a string and trims it. It returns "" for other values.
func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return strings.TrimSpace(s)
}

// list reads an array. It returns any other value as a list of one.
func list(raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil {
		return items
	}
	return []json.RawMessage{raw}
}
