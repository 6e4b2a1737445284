package evaluator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Parts are the names of the parts of a packet, in order.
var Parts = []string{
	"criteria_interpretation", "criterion_findings", "cross_answer_synthesis", "preserve",
	"improvement_spec", "verification_plan", "evidence_gaps",
}

// Submission is an evaluation as it was submitted.
type Submission struct {
	Packet []string   `json:"packet"` // parts in the order of Parts
	Rating Rating     `json:"verdict"`
	Tasks  *NextTasks `json:"next_tasks"` // nil without valid ones

	// Ceiling is the status that next_tasks states, even if next_tasks is not valid.
	Ceiling coordination.CeilingStatus `json:"ceiling_status,omitempty"`

	// Faults are the faults of next_tasks. They are empty if next_tasks is valid or not
	// needed.
	Faults []Fault `json:"faults,omitempty"`
}

// Rating is verdict.json: the verdict with its reasons in numbers.
type Rating struct {
	Verdict coordination.RoundVerdict `json:"verdict"`
	Scores  map[string]float64        `json:"scores"` // scores by criterion
}

// Fault is an error of a submission: a stable code and a sentence for the model.
type Fault struct {
	Code string `json:"code"`
	Why  string `json:"why"`
}

func (f *Fault) Error() string { return f.Why }

func fault(code, format string, args ...any) *Fault {
	return &Fault{Code: code, Why: fmt.Sprintf(format, args...)}
}

// Parse reads the arguments of submit_evaluation for an answer that is judged by the given
// number of criteria. It returns a fault only if it refuses the submission.
func Parse(arguments string, criteria int) (Submission, *Fault) {
	fields, ok := llm.Object([]byte(arguments))
	if !ok {
		return Submission{}, fault("arguments_invalid", "submit_evaluation takes a JSON object with packet, verdict and next_tasks.")
	}
	var s Submission
	var bad *Fault
	if s.Packet, bad = parsePacket(fields["packet"]); bad != nil {
		return Submission{}, bad
	}
	if s.Rating, bad = parseRating(fields["verdict"], criteria); bad != nil {
		return Submission{}, bad
	}
	s.readTasks(fields["next_tasks"])
	return s, nil
}

// readTasks reads the part of next_tasks that is needed.
func (s *Submission) readTasks(raw json.RawMessage) {
	tasks, faults := parseTasks(raw)
	if ceiling := tasks.Assessment.Ceiling; ceiling.valid() {
		s.Ceiling = ceiling.CeilingStatus
	}
	switch {
	case s.Rating.Verdict == coordination.Converged:
	case len(faults) > 0:
		s.Faults = faults
	default:
		s.Tasks = &tasks
	}
}

func parsePacket(raw json.RawMessage) ([]string, *Fault) {
	fields, ok := llm.Object(raw)
	if !ok {
		return nil, fault("packet_invalid", "packet has to be a JSON object with %s.", strings.Join(Parts, ", "))
	}
	packet := make([]string, len(Parts))
	var missing []string
	for i, name := range Parts {
		if packet[i] = prose(fields[name]); packet[i] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fault("packet_incomplete", "packet has nothing under %s.", strings.Join(missing, ", "))
	}
	return packet, nil
}

func parseRating(raw json.RawMessage, criteria int) (Rating, *Fault) {
	fields, ok := llm.Object(raw)
	if !ok {
		return Rating{}, fault("verdict_invalid", `verdict has to be a JSON object: {"verdict": "iterate", "scores": {"E1": 7}}.`)
	}
	v := Rating{Verdict: coordination.RoundVerdict(strings.ToLower(word(fields["verdict"]))), Scores: map[string]float64{}}
	if v.Verdict != coordination.Iterate && v.Verdict != coordination.Converged {
		return Rating{}, fault("verdict_unknown", "The verdict is iterate or converged.")
	}
	scores, ok := llm.Object(fields["scores"])
	if !ok {
		return Rating{}, fault("scores_invalid", `scores has to be a JSON object: {"E1": 7, "E2": 5}.`)
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if !slices.Contains(ids(criteria), name) {
			return Rating{}, fault("scores_unknown", "There is no criterion %.32q; they are E1 to E%d.", name, criteria)
		}
	}
	for _, name := range ids(criteria) {
		value, given := scores[name]
		if !given {
			return Rating{}, fault("scores_incomplete", "scores has no score for %s.", name)
		}
		var score *float64
		if json.Unmarshal(value, &score) != nil || score == nil || *score < 0 || *score > 10 {
			return Rating{}, fault("scores_out_of_range", "The score of %s has to be a number from 0 to 10.", name)
		}
		v.Scores[name] = *score
	}
	return v, nil
}

// ids returns the names of n criteria in order.
func ids(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("E%d", i+1)
	}
	return names
}

// RoundScores returns the scores in the order of the criteria.
func (v Rating) RoundScores() []coordination.RoundScore {
	var scores []coordination.RoundScore
	for _, name := range ids(len(v.Scores)) {
		scores = append(scores, coordination.RoundScore{ID: name, Score: v.Scores[name]})
	}
	return scores
}

// Document returns the packet as critique_packet.md.
func (s Submission) Document(label string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Evaluation of %s\n", label)
	for i, name := range Parts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", name, s.Packet[i])
	}
	return b.String()
}

// word reads a string and trims it. It returns "" for other values.
func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return strings.TrimSpace(s)
}

// prose reads a text, or a list of texts as a Markdown list. It returns "" for other values.
func prose(raw json.RawMessage) string {
	if s := word(raw); s != "" {
		return s
	}
	var lines []string
	for _, s := range words(raw) {
		lines = append(lines, "- "+s)
	}
	return strings.Join(lines, "\n")
}

// words returns the texts of a list that are not empty.
func words(raw json.RawMessage) []string {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items)
	var all []string
	for _, item := range items {
		if s := word(item); s != "" {
			all = append(all, s)
		}
	}
	return all
}
