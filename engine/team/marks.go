package team

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// marks delimit other authors' texts in an agent's prompt. These authors do not know the
// marks. A retry derives the same ones.
type marks struct {
	// Mark delimits the texts of agents in the opening. It is the same for all agents that
	// are shown the same answers, so that their prompts begin with the same bytes.
	Mark string

	// People delimits human messages; it is unique to the step.
	People string

	// Past delimits earlier turns. It is the same for all steps of a session, and empty if
	// there are no earlier turns.
	Past string

	// Token is unknown to all agents. The marks of updates derive from it.
	Token string
}

// digest derives a mark of letters and digits from all parts.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// witness is an answer read for the opening, with the token of the step that committed it. No
// agent knows the token, including the author.
type witness struct{ label, token string }

// marks derives the step's marks. If an answer has no token, as in a directory that
// another program writes, the opening's mark is derived from the step's own token.
func (o *opening) marks() marks {
	parts := []string{"answers", string(o.Launch.Purpose)}
	for _, w := range slices.SortedFunc(slices.Values(o.witnesses), func(a, b witness) int { return strings.Compare(a.label, b.label) }) {
		if w.token == "" {
			w.token = o.Token
		}
		parts = append(parts, w.label, w.token)
	}
	if o.Launch.Purpose != coordination.Coordinate {
		parts = append(parts, o.Token) // voters know the mark of the answers, and could forge it in their reasons
	}
	m := marks{Mark: digest(parts...), People: digest("people", o.Token), Token: o.Token}
	if len(o.Turns) > 0 {
		m.Past = digest("turns", cmp.Or(o.Secret, o.Token))
	}
	return m
}

// all returns the marks of the opening.
func (m marks) all() []string { return []string{m.Mark, m.People, m.Past} }

// updateMark returns the mark of an update that shows these answers for the first time.
func (m marks) updateMark(arrivals []arrival) string {
	parts := []string{"update", m.Token}
	for _, a := range arrivals {
		parts = append(parts, a.Label)
	}
	return digest(parts...)
}

// Sentences of the templates that name the marks of an opening. The sentence about messages
// from people comes last, so that no text of an agent can follow it. singleMark is for
// openings before protocol 3.
var (
	answersMark = regexp.MustCompile(`(?m)^The texts of agents stand between lines with the mark ([0-9a-f]{12,})`)
	peoplesMark = regexp.MustCompile(`The mark of messages from people is ([0-9a-f]{12,})\.\s*\z`)
	turnsMark   = regexp.MustCompile(`(?m)^Earlier turns stand between lines with the mark ([0-9a-f]{12,})`)
	singleMark  = regexp.MustCompile(`with the mark ([0-9a-f]{12,})`)
)

// readMarks adds the marks in an opening to the marks in use. A resumed step keeps the
// conversation of its first launch, and therefore its marks.
func (m *memory) readMarks(opening []llm.Message) {
	for _, message := range opening {
		answers, people := answersMark, peoplesMark
		if message.Role == llm.System {
			answers, people = singleMark, singleMark
		}
		if found := turnsMark.FindStringSubmatch(message.Content); found != nil && message.Role == llm.User {
			m.addMark(found[1])
		}
		if found := answers.FindStringSubmatch(message.Content); found != nil {
			m.addMark(found[1])
		}
		if found := people.FindAllStringSubmatch(message.Content, -1); len(found) > 0 {
			m.people = found[len(found)-1][1]
			m.addMark(m.people)
		}
	}
}

// addMark adds a mark that the agent was shown.
func (m *memory) addMark(mark string) {
	if mark != "" && !slices.Contains(m.live, mark) {
		m.live = append(m.live, mark)
	}
}
