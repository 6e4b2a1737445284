package team

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Answer is one answer as it is shown.
type Answer struct {
	Number int    // the agent's anonymous number, from 1
	Label  string // agent<Number>.<revision>
	Step   int    // the step that gave it
	Text   string
	Files  int // how many files its workspace has

	// Kept says that the whole text is at peers/agent<Number>.md, as Whole makes it.
	Kept bool
}

func (a Answer) agent() string { return agentName(a.Number) }

func (a Answer) arrival() Arrival { return Arrival{Number: a.Number, Label: a.Label, Step: a.Step} }

func agentName(number int) string { return fmt.Sprintf("agent%d", number) }

var revisionForm = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

// finalRevision stands in the label of a presented answer.
const finalRevision = "final"

// revision is the ordinal in a label of the agent with number, 0 for a label
// of any other form.
func revision(number int, label string) int {
	text, ok := strings.CutPrefix(label, agentName(number)+".")
	if !ok || number < 1 || !revisionForm.MatchString(text) {
		return 0
	}
	n, _ := strconv.Atoi(text)
	return n
}

// checkLabel keeps everything but anonymous labels out of prompts and enums.
func checkLabel(number int, label string) error {
	if revision(number, label) == 0 {
		return fmt.Errorf("answer of number %d has label %q: want agent<number>.<revision>", number, label)
	}
	return nil
}
