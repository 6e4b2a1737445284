package eval

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
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
}

// tableColumns are the columns of a table of letters, before those of the members.
var tableColumns = []string{"question_id", "category", "answer", "options"}

// maxMembers limits the members of a recording.
const maxMembers = 250

// ReadRecording reads the answers of a file: JSON lines with answers, an object of texts by member, or
// a table of letters.
func ReadRecording(file string, data []byte) (*Recording, error) {
	lines, members, err := DataSet{File: file, Data: data}.readLines()
	r := &Recording{Members: members}
	if err == nil {
		r.Questions, _, err = DataSet{Data: lines}.Read()
	}
	named := map[string]bool{}
	for _, q := range r.Questions {
		for name := range q.Answers {
			named[name] = true
		}
		if s := q.ScoredBy(""); err == nil && slices.Contains([]string{Command, Checks, Graded}, s) {
			err = fmt.Errorf("question %s has the scorer %s, which needs more than the recorded texts; leave the question out", q.ID, s)
		}
	}
	if members == nil {
		r.Members = slices.Sorted(maps.Keys(named))
	}
	if n := len(r.Members); err == nil && (n == 0 || n > maxMembers) {
		err = fmt.Errorf(`it has answers of %d members, and may have those of 1 to %d; give lines such as {"id": "q1", "input": "2 + 2?", "target": "4", "answers": {"a": "4", "b": "5"}}`, n, maxMembers)
	}
	return r, err
}

// readLines returns the questions as JSON lines, and the members of a table of letters. A line of the table
// becomes a line; its first one becomes empty. Errors name the line.
func (d DataSet) readLines() (lines []byte, members []string, err error) {
	data := d.Data
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) { // gzip
		zipped, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(zipped)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("unpack it: %w", err)
		}
	}
	if !strings.HasSuffix(strings.TrimSuffix(d.File, ".gz"), ".tsv") {
		return data, nil, err
	}
	number, before := 0, len(tableColumns)
	for line := range strings.Lines(string(data)) {
		number++
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		switch {
		case number == 1 && (len(cells) <= before || !slices.Equal(cells[:before], tableColumns)):
			return nil, nil, fmt.Errorf("line 1: a table of letters has the columns %s, then one for each member, separated by tabs", strings.Join(tableColumns, ", "))
		case number == 1:
			members = cells[before:]
		case len(cells) != before+len(members):
			return nil, nil, fmt.Errorf("line %d: it has %d columns, and the first line %d", number, len(cells), before+len(members))
		default:
			q := Question{ID: cells[0], Scorer: Match, Target: Targets{cells[2]}, Answers: map[string]string{}}
			q.Input = fmt.Sprintf("Question %s of the table, %s: which of its %s options is right?", cells[0], cells[1], cells[3])
			for i, name := range members {
				if letter := cells[before+i]; letter != "-" {
					q.Answers[name] = letter
				}
			}
			encoded, _ := json.Marshal(q) // of texts
			lines = append(lines, encoded...)
		}
		lines = append(lines, '\n')
	}
	return lines, members, nil
}

// Member returns the index of a member.
func (r *Recording) Member(name string) (int, error) {
	at := slices.Index(r.Members, name)
	if at < 0 {
		return 0, fmt.Errorf("there are no recorded answers of %q; the members are %s", name, strings.Join(r.Members, ", "))
	}
	return at, nil
}

// Recorded returns the text of a member's recorded answer, or "" without one. An answer of one line without
// the form of Form is put into it.
func (q Question) Recorded(member string) string {
	text := q.Answers[member]
	if text == "" || Extract(text) != "" || strings.Contains(strings.TrimSpace(text), "\n") {
		return text
	}
	return "This answer is recorded; no language model was asked.\n\nANSWER: " + strings.TrimSpace(text)
}

// FindQuestion returns the index of the question whose ID is the first line of a query. Without such an ID it
// is the question with the longest prompt that begins the query, or -1.
func FindQuestion(questions []Question, query string) int {
	id, _, _ := strings.Cut(query, "\n")
	found, longest := slices.IndexFunc(questions, func(q Question) bool { return q.ID == strings.TrimSpace(id) }), 0
	for i, q := range questions {
		if strings.HasPrefix(query, strings.TrimSpace(q.Input)) && strings.HasPrefix(query, q.Prompt()) && len(q.Prompt()) > longest {
			found, longest = i, len(q.Prompt())
		}
	}
	return found
}

// Voter decides for which answer an agent votes that does not read them.
type Voter struct {
	Votes   string  `json:"votes"`   // VotesOwn, VotesPlurality, or empty for the plurality and otherwise chance
	Judging float64 `json:"judging"` // probability that it finds a right answer, if one is shown
	Seed    int64   `json:"seed"`
}

// The values of Voter.Votes.
const (
	VotesOwn       = "own"       // for its own answer
	VotesPlurality = "plurality" // for the answer that most agents gave; else its own
)

// Ballot has the answers shown to a voter; indices are -1 without one.
type Ballot struct {
	Labels  []string
	Right   int  // index of the first right answer
	Own     int  // index of the first answer that equals the voter's
	Most    int  // index of the first answer that most agents gave, if several did
	Tied    bool // as many gave another
	Again   bool // the vote before was split
	Refused int  // votes of the same step that were refused
}

// Choose returns the index of the answer for which an agent votes on a question, and the reason. The
// same vote is chosen whenever it is repeated.
func (v Voter) Choose(question, agent string, b Ballot) (choice int, reason string) {
	step := strings.Join(append([]string{"vote"}, b.Labels...), " ")
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
