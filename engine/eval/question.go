package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/llm"
)

// Form is the last sentence of every question.
const Form = "End with one line: ANSWER: (your answer)"

// dataForm is the last sentence of questions with the scorer JSON.
const dataForm = "Answer with JSON: as the data of the answer, or else between a line ```json and a line ```."

// Question is one line of a data set.
type Question struct {
	ID       string            `json:"id"`
	Input    string            `json:"input"`
	Target   Targets           `json:"target"`
	Choices  []string          `json:"choices,omitempty"`
	Files    map[string]string `json:"files,omitempty"` // path in the base to its content
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Scorer   string            `json:"scorer,omitempty"`  // empty for that of the evaluation
	Base     string            `json:"base,omitempty"`    // directory that the agents start from
	Checks   json.RawMessage   `json:"checks,omitempty"`  // directory of checks, or their list as in checks.yaml
	Answers  map[string]string `json:"answers,omitempty"` // recorded answers by member

	Schema *llm.DataSchema `json:"-"` // says how data are compared; nil for the standard way
}

// Targets are the right answers of a question: a string, a number or a list.
type Targets []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Targets) UnmarshalJSON(data []byte) error {
	var given any
	if err := decodeNumbers(data, &given); err != nil {
		return err
	}
	many, list := given.([]any)
	if !list && given != nil {
		many = []any{given}
	}
	*t = nil
	for _, value := range many {
		switch value := value.(type) {
		case string:
			*t = append(*t, value)
		case json.Number:
			*t = append(*t, value.String())
		case map[string]any:
			data, _ := json.Marshal(value) // it was read from JSON
			*t = append(*t, string(data))
		default:
			return fmt.Errorf("target is %T; give a string, a number, an object or a list of them", value)
		}
	}
	return nil
}

func decodeNumbers(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// MarshalJSON implements json.Marshaler: a single target is a string.
func (t Targets) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// maxIDBytes limits a question's ID, to keep the IDs of sessions short.
const maxIDBytes = 40

var questionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// maxFaults bounds the faults that one error names.
const maxFaults = 10

// ReadQuestions reads a data set without renamed fields.
func ReadQuestions(data []byte, scorer string) ([]Question, error) {
	questions, _, err := DataSet{Data: data, Scorer: scorer}.Read()
	return questions, err
}

// DataSet is a data set with one JSON object per line, or a table of letters.
type DataSet struct {
	File   string // name; a table of letters ends in .tsv or .tsv.gz
	Data   []byte
	Scorer string            // of questions that name none; may be empty
	Fields map[string]string // field of a question to the field of Data that it is read from
}

// Read returns the questions and the names of the fields that no question has, sorted. It numbers
// questions without an ID. Errors name the line.
func (d DataSet) Read() (questions []Question, ignored []string, err error) {
	data, _, err := d.readLines()
	if err != nil {
		return nil, nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var faults []error
	foreign := map[string]bool{}
	seen := map[string]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		q, others, err := d.readQuestion(line, number)
		if err == nil {
			err = q.checkScorable(d.Scorer)
		}
		for _, name := range others {
			foreign[name] = true
		}
		if first, twice := seen[q.ID]; err == nil && twice {
			err = fmt.Errorf("the id %q is that of line %d, too", q.ID, first)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		seen[q.ID] = number
		questions = append(questions, q)
	}
	if len(questions) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New(`it has no question; give lines such as {"id": "q1", "input": "2 + 2?", "target": "4"}`))
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Errorf("and %d more lines", more))
	}
	return questions, slices.Sorted(maps.Keys(foreign)), errors.Join(faults...)
}

// renameFields gives the fields of a line the names that a question has for them, and returns those that
// it has none for.
func (d DataSet) renameFields(line []byte) (renamed []byte, others []string, err error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, nil, fmt.Errorf("not a JSON object: %w; give one question a line", err)
	}
	fields := map[string]json.RawMessage{}
	for name, value := range given {
		to := name
		for field, from := range d.Fields {
			if from == name {
				to = field
			}
		}
		from, replaced := d.Fields[to]
		switch {
		case replaced && from != name: // another field is read in its place
		case slices.Contains(questionFields, to):
			fields[to] = value
		default:
			others = append(others, name)
		}
	}
	renamed, err = json.Marshal(fields)
	return renamed, others, err
}

// questionFields are the JSON names of a Question's fields.
var questionFields = []string{"id", "input", "target", "choices", "files", "metadata", "scorer", "base", "checks", "answers"}

func (d DataSet) readQuestion(line []byte, number int) (q Question, others []string, err error) {
	line, others, err = d.renameFields(line)
	if err != nil {
		return q, nil, err
	}
	q, err = decodeQuestion(line, number)
	if q.ScoredBy(d.Scorer) == JSON {
		q.Scorer = JSON
	}
	if q.ScoredBy(d.Scorer) == Match {
		for i, target := range q.Target {
			q.Target[i] = finalTarget(target)
		}
	}
	return q, others, err
}

// finalTarget returns the text after #### in the last line of a target with a worked solution, as
// GSM8K has them.
func finalTarget(target string) string {
	if _, final, ok := strings.Cut(target[strings.LastIndexByte(target, '\n')+1:], "#### "); ok {
		return strings.TrimSpace(final)
	}
	return target
}

func decodeQuestion(line []byte, number int) (Question, error) {
	var l struct {
		Question
		ID any `json:"id"`
	}
	if err := decodeNumbers(line, &l); err != nil {
		return l.Question, fmt.Errorf("%w; a question has id, input (a text), target, choices, files, metadata, scorer, base and checks", err)
	}
	switch id := l.ID.(type) {
	case string:
		l.Question.ID = id
	case json.Number:
		l.Question.ID = id.String()
	case nil:
	default:
		return l.Question, errors.New("the id is neither a text nor a number")
	}
	if l.Question.ID == "" {
		l.Question.ID = fmt.Sprintf("q%d", number)
	}
	return l.Question, nil
}

func (q Question) checkScorable(scorer string) error {
	switch {
	case len(q.ID) > maxIDBytes || !questionID.MatchString(q.ID):
		return fmt.Errorf("the id %.60q; give at most %d letters, digits, hyphens, underscores and dots", q.ID, maxIDBytes)
	case strings.TrimSpace(q.Input) == "":
		return errors.New("no input; give the text of the question, or the field that has it: --field input=NAME")
	case q.Base != "" && len(q.Files) > 0:
		return errors.New("base and files exclude each other; leave one out")
	case len(q.Choices) > len(letters):
		return fmt.Errorf("%d choices; give at most %d", len(q.Choices), len(letters))
	}
	if dir, list := q.ChecksAt(); len(q.Checks) > 0 && dir == "" && list == nil {
		return fmt.Errorf("checks is %.40q; give a directory, or a list as in checks.yaml", q.Checks)
	}
	for name := range q.Files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the file %.60q lies outside the question's files; give a relative path", name)
		}
	}
	return q.checkScorer(q.ScoredBy(scorer))
}

func (q Question) checkScorer(scorer string) error {
	switch {
	case !slices.Contains(Scorers(), scorer):
		return fmt.Errorf("no scorer %q; use %s", scorer, strings.Join(Scorers(), ", "))
	case scorer == Checks:
		if dir, list := q.ChecksAt(); dir == "" && list == nil {
			return errors.New("the scorer checks needs checks; give a directory, or a list as in checks.yaml")
		}
		return nil
	case len(q.Target) == 0:
		return errors.New("no target; give the right answer, or the field that has it: --field target=NAME")
	case scorer == Choice && len(q.Choices) == 0:
		return errors.New("the scorer choice needs choices")
	}
	for _, target := range q.Target {
		if strings.TrimSpace(target) == "" {
			return errors.New("a target is empty; give the right answer")
		}
		if _, err := regexp.Compile(target); scorer == Pattern && err != nil {
			return fmt.Errorf("the target is not a regular expression (RE2): %w", err)
		}
		if _, err := llm.ReadData([]byte(target)); scorer == JSON && err != nil {
			return fmt.Errorf("the target is not JSON: %w; give an object, or JSON as a text", err)
		}
		if _, found := q.choiceLetter(target); scorer == Choice && !found {
			return fmt.Errorf("the target %.40q is neither a letter nor the text of a choice", target)
		}
	}
	return nil
}

// ChecksAt returns the checks of a question: their directory or their list, whichever is
// given.
func (q Question) ChecksAt() (dir string, list []byte) {
	if json.Unmarshal(q.Checks, &dir) == nil {
		return dir, nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(q.Checks), []byte("[")) {
		return "", q.Checks
	}
	return "", nil
}

// ScoredBy returns the scorer of a question: its own, or the one for choices, or else the
// given one of the evaluation.
func (q Question) ScoredBy(scorer string) string {
	switch {
	case q.Scorer != "":
		return q.Scorer
	case scorer != "":
		return scorer
	case len(q.Choices) > 0:
		return Choice
	}
	return Match
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func (q Question) choiceLetter(target string) (string, bool) {
	target = strings.TrimSpace(target)
	for i, choice := range q.Choices {
		if target == letters[i:i+1] || normalizeText(target) == normalizeText(choice) {
			return letters[i : i+1], true
		}
	}
	return "", false
}

// Prompt returns the text that is sent for the question.
func (q Question) Prompt() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(q.Input))
	if len(q.Choices) > 0 {
		b.WriteString("\n")
	}
	for i, choice := range q.Choices {
		fmt.Fprintf(&b, "\n%s) %s", letters[i:i+1], choice)
	}
	if len(q.Choices) > 0 {
		b.WriteString("\n\nAnswer with the letter of the right choice.")
	}
	form := Form
	if q.Scorer == JSON {
		form = dataForm
	}
	return b.String() + "\n\n" + form
}

// Wrong returns wrong answers to a question: the other choices, or other numbers or texts.
func (q Question) Wrong() []string {
	var others []string
	for i := range q.Choices {
		others = append(others, letters[i:i+1])
	}
	value, whole := new(big.Int).SetString(canonicalAnswer(strings.Join(q.Target[:min(1, len(q.Target))], "")), 10)
	for i := int64(1); len(q.Choices) == 0 && i <= 4; i++ {
		if whole {
			others = append(others, new(big.Int).Add(value, big.NewInt(i)).String())
		} else {
			others = append(others, fmt.Sprintf("wrong %d", i))
		}
	}
	return slices.DeleteFunc(others, func(other string) bool {
		_, right := q.Score("", "ANSWER: "+other)
		return right == nil || *right
	})
}
