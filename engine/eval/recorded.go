package eval

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Recording is a data set with the answers that members have given to its questions before.
type Recording struct {
	Members   []string
	Questions []Question

	given   [][]string // answers by question, then by member; empty for none
	prompts []string
	scorer  string
}

// RecordedForm is the first line of a recorded answer that is no text of its own, such as a letter.
const RecordedForm = "This answer is recorded; no language model was asked."

// tableColumns are the columns of a table of letters, before those of the members.
var tableColumns = []string{"question_id", "category", "answer", "options"}

// IsTable reports whether a file is a table of letters, by its name.
func IsTable(file string) bool {
	return strings.HasSuffix(strings.TrimSuffix(file, ".gz"), ".tsv")
}

// unpack returns the content of data, which may be compressed by gzip.
func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return data, nil
	}
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(zipped)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	return data, nil
}

// ReadRecording reads the answers of a file: JSON lines with answers, an object of texts by member, or
// a table of letters.
func ReadRecording(file string, data []byte, scorer string) (*Recording, error) {
	r := &Recording{scorer: scorer}
	d := DataSet{File: file, Data: data, Scorer: scorer}
	var err error
	if IsTable(file) {
		r.Questions, r.Members, r.given, err = d.readTable()
	} else if r.Questions, _, err = d.Read(); err == nil {
		err = r.takeAnswers()
	}
	if err != nil {
		return nil, err
	}
	for _, q := range r.Questions {
		r.prompts = append(r.prompts, q.Prompt())
		if s := q.ScoredBy(scorer); slices.Contains([]string{Command, Checks, Graded}, s) {
			return nil, fmt.Errorf("question %s has the scorer %s, which needs more than the recorded texts; leave the question out", q.ID, s)
		}
	}
	return r, nil
}

// takeAnswers takes the answers of the questions, whose members are sorted by name.
func (r *Recording) takeAnswers() error {
	members := map[string]bool{}
	for _, q := range r.Questions {
		for name := range q.Answers {
			members[name] = true
		}
	}
	if len(members) == 0 {
		return errors.New(`no question has answers; give lines such as {"id": "q1", "input": "2 + 2?", "target": "4", "answers": {"a": "4", "b": "5"}}`)
	}
	r.Members = slices.Sorted(maps.Keys(members))
	for _, q := range r.Questions {
		var given []string
		for _, name := range r.Members {
			given = append(given, q.Answers[name])
		}
		r.given = append(r.given, given)
	}
	return nil
}

// readTable reads a table of letters. Errors name the line.
func (d DataSet) readTable() (questions []Question, members []string, given [][]string, err error) {
	data, err := unpack(d.Data)
	if err != nil {
		return nil, nil, nil, err
	}
	number, seen := 0, map[string]int{}
	for line := range strings.Lines(string(data)) {
		number++
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if number == 1 {
			if len(cells) <= len(tableColumns) || !slices.Equal(cells[:len(tableColumns)], tableColumns) {
				return nil, nil, nil, fmt.Errorf("line 1: a table of letters has the columns %s, then one for each member, separated by tabs", strings.Join(tableColumns, ", "))
			}
			members = cells[len(tableColumns):]
			continue
		}
		q := Question{ID: cells[0], Scorer: Match}
		if len(cells) == len(members)+len(tableColumns) {
			q.Target = Targets{cells[2]}
			q.Input = fmt.Sprintf("Question %s of the table, %s: which of its %s options is right?", q.ID, cells[1], cells[3])
			err = q.checkScorable("")
			for i, letter := range cells[2:] {
				if unread := i >= 2 && letter == "-"; i != 1 && !unread && (len(letter) != 1 || !strings.Contains(letters, letter)) {
					err = fmt.Errorf("%.20q is not a letter from A to Z; a member without an answer has a hyphen", letter)
				}
			}
		} else {
			err = fmt.Errorf("it has %d columns, and the first line %d", len(cells), len(members)+len(tableColumns))
		}
		if first, twice := seen[q.ID]; err == nil && twice {
			err = fmt.Errorf("the id %q is that of line %d, too", q.ID, first)
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		seen[q.ID] = number
		questions = append(questions, q)
		row := cells[len(tableColumns):]
		for i := range row {
			row[i] = strings.TrimPrefix(row[i], "-")
		}
		given = append(given, row)
	}
	if len(questions) == 0 {
		return nil, nil, nil, errors.New("it has no question")
	}
	return questions, members, given, nil
}

// Member returns the index of a member.
func (r *Recording) Member(name string) (int, error) {
	at := slices.Index(r.Members, name)
	if at < 0 {
		return 0, fmt.Errorf("there are no recorded answers of %q; the members are %s", name, strings.Join(r.Members, ", "))
	}
	return at, nil
}

// Answer returns the text of a recorded answer, or "" without one. An answer of one line without the
// form of Form is put into it.
func (r *Recording) Answer(question, member int) string {
	text := r.given[question][member]
	if text == "" || Extract(text) != "" || strings.Contains(strings.TrimSpace(text), "\n") {
		return text
	}
	return RecordedForm + "\n\nANSWER: " + strings.TrimSpace(text)
}

// Find returns the index of the question whose ID is the query, or with whose prompt it begins; -1 if
// there is none.
func (r *Recording) Find(query string) int {
	found := slices.IndexFunc(r.Questions, func(q Question) bool { return q.ID == strings.TrimSpace(query) })
	for i, prompt := range r.prompts {
		if found < 0 || len(prompt) > len(r.prompts[found]) {
			if strings.HasPrefix(query, prompt) {
				found = i
			}
		}
	}
	return found
}

// Voter decides for which answer an agent votes that does not read them.
type Voter struct {
	Votes   string  `json:"votes"`   // own, plurality, or empty for plurality and otherwise chance
	Judging float64 `json:"judging"` // probability that it finds a right answer, if one is shown
	Seed    int64   `json:"seed"`
}

// The values of Voter.Votes.
const (
	VotesOwn       = "own"       // for the answer that is its own
	VotesPlurality = "plurality" // for the answer that most agents gave; else its own
)

// OfRecorded returns the voter of recorded answers, which votes for its own answer unless it is told
// otherwise.
func (v Voter) OfRecorded() Voter {
	if v.Votes == "" && v.Judging == 0 {
		v.Votes = VotesOwn
	}
	return v
}

// judges reports whether votes depend on more than the equality of answers.
func (v Voter) judges() bool { return v.Judging > 0 || v.Votes == "" }

// Ballot has the answers shown to a voter.
type Ballot struct {
	Labels  []string
	Right   int // index of the first right answer; -1 without one
	Own     int // index of the first answer that equals the voter's; -1 without one
	Most    int // index of the first answer that most agents gave, if several gave one; -1 otherwise
	Tied    bool
	Again   bool // the vote before was split
	Refused int  // votes of the same step that were refused
}

// Choose returns the index of the answer for which an agent votes on a question, and the reason. The
// same vote is chosen whenever it is repeated.
func (v Voter) Choose(question, agent string, b Ballot) (choice int, reason string) {
	step := "vote"
	for _, label := range b.Labels {
		step += " " + label
	}
	if b.Again {
		step += " again"
	}
	chance := v.Chance(question, agent, fmt.Sprintf("%s %d", step, b.Refused))
	judges := chance.Float64() < v.Judging
	switch {
	case judges && b.Right >= 0:
		return b.Right, "recognizes it"
	case v.Votes == VotesOwn && b.Own >= 0, v.Votes == VotesPlurality && b.Own >= 0 && (b.Most < 0 || b.Tied):
		return b.Own, "votes for its own answer"
	case b.Most >= 0:
		return b.Most, "follows most agents"
	}
	return chance.IntN(len(b.Labels)), "guesses"
}

// Chance returns the random numbers of one step of an agent.
func (v Voter) Chance(question, agent, step string) *rand.Rand {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%s", v.Seed, question, agent, step))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))) //nolint:gosec // the draw is repeatable
}
