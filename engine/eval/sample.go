package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"conclave/engine/llm"
)

// Sample is the outcome of a question in one epoch and arm, a line of samples.jsonl.
type Sample struct {
	ID        string    `json:"id"`
	Epoch     int       `json:"epoch"`
	Arm       string    `json:"arm"`
	Answer    string    `json:"answer"`
	Extracted string    `json:"extracted"`
	Correct   *bool     `json:"correct"` // null if the answer failed, is undecided or could not be read
	SessionID string    `json:"session_id"`
	Cost      llm.Usage `json:"cost"`
	Seconds   float64   `json:"seconds"`

	// Paid is the cost of Runs: the sessions and pipeline runs of the question that no
	// earlier outcome has paid for.
	Paid llm.Usage `json:"paid"`
	Runs []string  `json:"runs,omitempty"`
	// Failed is the reason why there is no answer; it is empty if there is one.
	Failed string `json:"failed,omitempty"`
	// Samples is the number of answers that a vote counted.
	Samples int `json:"samples,omitempty"`
	// Conduct describes how the team came to its answer; it is null for other arms.
	Conduct *Conduct `json:"team,omitempty"`
}

// Right reports whether the answer is right.
func (s Sample) Right() bool { return s.Correct != nil && *s.Correct }

// Key identifies a sample in an evaluation.
type Key struct {
	ID    string
	Epoch int
	Arm   string
}

// Key returns the key of a sample.
func (s Sample) Key() Key { return Key{s.ID, s.Epoch, s.Arm} }

// Conduct describes how a team came to a decision.
type Conduct struct {
	Status    string  `json:"status"`
	FirstVote *bool   `json:"first_vote"` // whether the vote of the first answers is right
	First     []*bool `json:"first"`      // whether each first answer is right
	Lost      int     `json:"lost"`       // agents that had failed at the end

	// Votes counts the votes that were cast when both right and wrong answers were shown, and
	// Judged those of them for a right one. Chance is the number for a right one that votes
	// at random would have had.
	Votes  int     `json:"votes"`
	Judged int     `json:"judged"`
	Chance float64 `json:"chance"`
}

// ReadSamples reads samples.jsonl and keeps the last line for each question, epoch and arm.
// It ignores a last line that was cut off; any other unreadable line is an error.
func ReadSamples(data []byte) ([]Sample, error) {
	var samples []Sample
	at := map[Key]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		var s Sample
		if err := json.Unmarshal(line, &s); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("line %d: %w; remove the line, and its question is asked again", number, err)
		}
		if i, known := at[s.Key()]; known {
			samples[i] = s
			continue
		}
		at[s.Key()] = len(samples)
		samples = append(samples, s)
	}
	return samples, nil
}

// Vote returns the index of the answer whose key occurs most often; ties go to the answer
// given first. It returns -1 if all keys are empty.
func Vote(keys []string) (winner int) {
	counts := map[string]int{}
	for _, key := range keys {
		counts[key]++
	}
	winner = -1
	for i, key := range keys {
		if key != "" && (winner < 0 || counts[key] > counts[keys[winner]]) {
			winner = i
		}
	}
	return winner
}

// Matching returns how many samples cost as many tokens as the team, at least one. Firsts are
// the usages of single answers.
func Matching(team llm.Usage, firsts []llm.Usage) int {
	var each int64
	for _, u := range firsts {
		each += tokens(u)
	}
	if each == 0 {
		return 1
	}
	k := (tokens(team)*int64(len(firsts)) + each/2) / each
	return int(min(max(k, 1), MostSamples))
}

// sortSamples orders samples by question, epoch and arm.
func sortSamples(samples []Sample) {
	slices.SortStableFunc(samples, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Arm, b.Arm))
	})
}

// tokens returns all tokens of a usage.
func tokens(u llm.Usage) int64 { return u.InputTokens + u.OutputTokens }
