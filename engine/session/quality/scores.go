package quality

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
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

func (s sheet) scoreSum() float64 {
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

// readSheets reads the scores in the form that the mode requires. They are in the order in which
// the answers are shown.
func (s *State) readSheets(scores map[string]json.RawMessage) ([]sheet, *fault) {
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
	if several && s.hasAnswered() && !s.policy.Decomposition {
		return nil, &fault{code: flatScoresDisallowed, why: "Several answers are shown. Score each: " + s.scoresExample()}
	}
	label := ""
	if !several && !s.policy.Decomposition {
		label = s.policy.Own
	}
	return s.readSingle(label, scores)
}

func (s *State) readSingle(label string, fields map[string]json.RawMessage) ([]sheet, *fault) {
	one, bad := s.readSheet(label, fields)
	if bad != nil {
		return nil, bad
	}
	if s.hasAnswered() && len(one.missing) > 0 {
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
	if s.hasAnswered() {
		if fields, ok := s.answerScores(scores, s.policy.Own); ok {
			entries = []map[string]json.RawMessage{fields}
		}
	}
	if len(entries) != 1 {
		return nil, &fault{code: decompositionScoresInvalid, why: "Score your own part only: " + s.scoresExample()}
	}
	return s.readSingle("", entries[0])
}

// perAgent reads the scores of the answers shown. In a recheck, earlier scores replace missing ones.
func (s *State) perAgent(scores map[string]json.RawMessage) ([]sheet, *fault) {
	labels, needed := s.policy.Labels, s.policy.Labels
	if len(labels) == 0 {
		labels = slices.Sorted(maps.Keys(scores))
	}
	if s.isRecheck() {
		needed = s.pending
	}
	var given, all []sheet
	for _, label := range labels {
		if fields, ok := s.answerScores(scores, label); ok {
			one, bad := s.readSheet(label, fields)
			if bad != nil {
				return nil, bad
			}
			given, all = append(given, one), append(all, one)
		} else if before, ok := s.scores[label]; ok && s.isRecheck() {
			all = append(all, s.earlierSheet(label, before))
		}
	}
	if s.hasAnswered() {
		if bad := s.findGaps(given, needed); bad != nil {
			return nil, bad
		}
	}
	if len(all) == 0 {
		return s.readSingle("", nil)
	}
	return all, nil
}

// findGaps returns a fault for the criteria and labels that the given entries lack.
func (s *State) findGaps(given []sheet, needed []string) *fault {
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
		return &fault{missingAgentScores, "No scores for " + strings.Join(labels, ", ") + ". Give them as " + s.scoresExample(), labels}
	}
	return nil
}

// answerScores returns the scores of the answer with a label, which may be listed under the label or
// its agent.
func (s *State) answerScores(scores map[string]json.RawMessage, label string) (map[string]json.RawMessage, bool) {
	for _, key := range []string{label, agentOf(label)} {
		if fields, ok := llm.Object(scores[key]); ok {
			return fields, true
		}
	}
	return nil, false
}

func (s *State) readSheet(label string, fields map[string]json.RawMessage) (sheet, *fault) {
	one := sheet{label: label, scores: make([]float64, len(s.policy.Criteria))}
	for i := range s.policy.Criteria {
		raw, ok := criterionValue(fields, i)
		if !ok {
			one.missing = append(one.missing, criterionID(i))
			continue
		}
		score, ok := readScore(raw)
		where := strings.TrimSpace(label + " " + criterionID(i))
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

func (s *State) earlierSheet(label string, before map[string]float64) sheet {
	one := sheet{label: label, scores: make([]float64, len(s.policy.Criteria))}
	for i := range one.scores {
		one.scores[i] = before[criterionID(i)]
	}
	return one
}

// readScore reads a score, either a number or an object with a number under score.
func readScore(raw json.RawMessage) (float64, bool) {
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

func (s *State) scoresExample() string { return s.policy.scoresExample() + "." }

// criterionForm matches the names of criteria in arguments.
var criterionForm = regexp.MustCompile(`^[EeTt][0-9]+$`)

// criterionValue returns the value of the criterion at index under any of its names. null counts as missing.
func criterionValue(fields map[string]json.RawMessage, index int) (json.RawMessage, bool) {
	for _, raw := range criterionValues(fields, index) {
		if string(raw) != "null" {
			return raw, true
		}
	}
	return nil, false
}

// criterionValues returns the values under all names of the criterion at index.
func criterionValues(fields map[string]json.RawMessage, index int) []json.RawMessage {
	name := criterionID(index)
	alias := "T" + name[1:]
	var values []json.RawMessage
	for _, key := range []string{name, alias, strings.ToLower(name), strings.ToLower(alias)} {
		if raw, ok := fields[key]; ok {
			values = append(values, raw)
		}
	}
	return values
}

// itemFields reads an item that models send as an object or, in short form, as the text of the
// object's first field.
func itemFields(item json.RawMessage, first string) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(item, &fields) != nil || fields == nil {
		return map[string]json.RawMessage{first: item}
	}
	return fields
}

// leastReport is the minimum length of a report, in characters, without surrounding white space.
const leastReport = 100

// checkReport checks the report of a checklist. The path must be relative to the workspace, and the file must
// exist when the checklist is submitted. The packet of an evaluation needs no workspace.
func (s *State) checkReport(name string) *fault {
	p, otherwise := s.policy, "leave report_path out"
	if p.Packet != "" {
		otherwise = "give " + p.Packet
	}
	var content []byte
	switch clean := path.Clean(name); {
	case name == "" && p.Packet != "":
		return &fault{code: reportRequired, why: "The report of this checklist is " + p.Packet + ": give it as report_path."}
	case name == "":
		return nil
	case p.Packet != "" && clean == p.Packet:
		content = []byte(p.PacketText)
	case path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../"):
		return &fault{code: reportOutside, why: "report_path has to be a path in your workspace, relative to it."}
	case p.Read == nil:
		return &fault{code: reportMissing, why: "You have no workspace for a report: " + otherwise + "."}
	default:
		var err error
		if content, err = p.Read(clean); err != nil {
			return &fault{code: reportMissing, why: "There is no readable file at report_path. Write it first, in an earlier reply, or " + otherwise + "."}
		}
	}
	if len([]rune(strings.TrimSpace(string(content)))) < leastReport {
		return &fault{code: reportEmpty, why: "The file at report_path has less than 100 characters: it has to give your findings, with evidence."}
	}
	return nil
}
