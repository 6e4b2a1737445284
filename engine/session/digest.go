package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session/check"
	"conclave/engine/text"
)

// DigestOf returns the digest of an answer with a change of files that has the given hash.
// Checks that were handed in do not affect it.
func DigestOf(text string, change artifact.Change, manifest string) (coordination.Digest, error) {
	files := artifact.Manifest{Files: change.Files}
	if len(check.Handed(files).Files) > 0 {
		change.Files = check.Without(files).Files
		var err error
		if manifest, err = change.Hash(); err != nil {
			return coordination.Digest{}, err
		}
	}
	return digestOf(text, manifest), nil
}

// DigestText returns the digest of an answer without a change of files.
func DigestText(text string) coordination.Digest { return digestOf(text, "") }

func digestOf(text, manifest string) coordination.Digest {
	d := coordination.Digest{Exact: hashParts(text, manifest), Normalized: hashParts(normalizeText(text), manifest)}
	if line, found := lastLine(text); found {
		d.ExactLine, d.NormalizedLine = hashParts(line), hashParts(normalizeText(line))
	}
	return d
}

// normalizeText returns text after NFKC and case folding, with white space collapsed and without
// closing punctuation.
func normalizeText(text string) string {
	text = cases.Fold().String(norm.NFKC.String(text))
	text = strings.Join(strings.Fields(text), " ")
	return strings.TrimRightFunc(text, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
}

// answerLine matches a line "ANSWER: …", which may be emphasized.
var answerLine = regexp.MustCompile(`^[\s*_#>]*ANSWER:[\s*_]*(.*\S)\s*$`)

// lastLine returns the result in the last line of a text if that line has the form "ANSWER:
// …".
func lastLine(text string) (result string, found bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	m := answerLine.FindStringSubmatch(lines[len(lines)-1])
	if m == nil {
		return "", false
	}
	result = strings.TrimRight(m[1], "*_ ")
	return result, result != ""
}

// agreement lists the labels of equal answers that agents gave independently.
type agreement []string

// hasSeen reports whether the author of a was shown the answer b of another agent.
func (a answer) hasSeen(b answer) bool {
	step := a.Saw[b.Number]
	return step > 0 && step == b.Step && a.Number != b.Number
}

// findAgreements returns the groups of equal answers, ordered by their lowest numbers. It omits
// answers whose authors were shown an equal one.
func (t task) findAgreements(answers []answer) []agreement {
	if !t.ShowAgreement || t.Alone || t.isDivided() {
		return nil
	}
	lines := t.comparesLines(answers)
	var groups []agreement
	var firsts []answer
	for _, a := range answers {
		if slices.ContainsFunc(answers, func(b answer) bool {
			return a.hasSeen(b) && a.Digest.Equal(b.Digest, t.Agree, true)
		}) {
			continue
		}
		at := slices.IndexFunc(firsts, func(b answer) bool { return a.Digest.Equal(b.Digest, t.Agree, lines) })
		if at < 0 {
			firsts, groups = append(firsts, a), append(groups, nil)
			at = len(groups) - 1
		}
		groups[at] = append(groups[at], a.Label)
	}
	return slices.DeleteFunc(groups, func(equal agreement) bool { return len(equal) < 2 })
}

// maxDifferent and maxDifferences bound, in bytes, a value and the text in which answers differ.
const maxDifferent, maxDifferences = 120, 4 << 10

// findDifferences lists the fields in which the data of answers differ, a line for each, with the
// values and the labels of their answers.
func (t task) findDifferences(answers []answer, marks ...string) string {
	answers = slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.Data.JSON == nil })
	var data []llm.Data
	for _, a := range answers {
		data = append(data, a.Data)
	}
	var lines strings.Builder
	for _, field := range llm.Differences(data) {
		labels := map[string][]string{}
		for i, value := range field.Values {
			labels[value] = append(labels[value], answers[i].Label)
		}
		lines.WriteString("\n- " + cmp.Or(text.OneLine(field.Path), "all") + ":")
		for i, value := range field.Values {
			if slices.Index(field.Values, value) == i {
				fmt.Fprintf(&lines, " %s (%s)", cmp.Or(text.Truncate(value, maxDifferent), "missing"), strings.Join(labels[value], ", "))
			}
		}
	}
	return text.Truncate(text.Within(lines.String(), marks...), maxDifferences)
}

// comparesLines reports whether all answers have a last line "ANSWER: …". If so, only those
// lines are compared.
func (t task) comparesLines(answers []answer) bool {
	return !slices.ContainsFunc(answers, func(a answer) bool { return a.Digest.Line(t.Agree) == "" })
}

// Class is the ruling of a judge of equality on one answer: equal answers have the same
// class. It is written once.
type Class struct {
	Class string    `json:"class"`
	Token string    `json:"token"` // token of the step whose answer was judged
	Usage llm.Usage `json:"usage"` // usage of the judge
}

// ClassKey returns the key of the Class of an answer.
func ClassKey(layout artifact.Layout, d coordination.Digest) string {
	return layout.File("agreement/answers/" + d.Exact + ".json")
}

// Representative is the first answer of a class. It is written once.
type Representative struct {
	Text     string              `json:"text"`
	Manifest string              `json:"manifest,omitempty"`
	Digest   coordination.Digest `json:"digest"`
}

// RepresentativeKey returns the key of the n-th class, from 1.
func RepresentativeKey(layout artifact.Layout, n int) string {
	return layout.File(fmt.Sprintf("agreement/%03d.json", n))
}

// ReadClass reads the class of an answer. It returns the zero Class if no judge has
// determined one.
func ReadClass(ctx context.Context, store artifact.Store, layout artifact.Layout, d coordination.Digest) (Class, error) {
	c, err := artifact.ReadJSON[Class](ctx, store, ClassKey(layout, d))
	if errors.Is(err, artifact.ErrNotFound) {
		return Class{}, nil
	}
	if err != nil {
		return Class{}, fmt.Errorf("read the class of an answer: %w", err)
	}
	return c, nil
}

// Apply replaces the digests of an answer with its class, if it has one.
func (c Class) Apply(d coordination.Digest) coordination.Digest {
	if c.Class == "" {
		return d
	}
	d.Normalized, d.NormalizedLine, d.ExactLine = c.Class, "", ""
	return d
}

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

// hashParts derives a mark of letters and digits from all parts.
func hashParts(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// witness is an answer read for the opening, with the token of the step that committed it. No
// agent knows the token, including the author.
type witness struct{ label, token string }

// deriveMarks derives the step's marks. If an answer has no token, as in a directory that
// another program writes, the opening's mark is derived from the step's own token.
func (o *opening) deriveMarks() marks {
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
	m := marks{Mark: hashParts(parts...), People: hashParts("people", o.Token), Token: o.Token}
	if len(o.Turns) > 0 {
		m.Past = hashParts("turns", cmp.Or(o.Secret, o.Token))
	}
	return m
}

func (m marks) openingMarks() []string { return []string{m.Mark, m.People, m.Past} }

// updateMark returns the mark of an update that shows these answers for the first time.
func (m marks) updateMark(arrivals []arrival) string {
	parts := []string{"update", m.Token}
	parts = append(parts, text.Each(arrivals, func(a arrival) string { return a.Label })...)
	return hashParts(parts...)
}

// Sentences of the templates that name the marks of an opening. The sentence about messages
// from people comes last, so that no text of an agent can follow it.
var (
	answersMark = regexp.MustCompile(`(?m)^The texts of agents stand between lines with the mark ([0-9a-f]{12,})`)
	peoplesMark = regexp.MustCompile(`The mark of messages from people is ([0-9a-f]{12,})\.\s*\z`)
	turnsMark   = regexp.MustCompile(`(?m)^Earlier turns stand between lines with the mark ([0-9a-f]{12,})`)
)

// readMarks adds the marks in an opening to the marks in use. A resumed step keeps the
// conversation of its first launch, and therefore its marks.
func (m *memory) readMarks(opening []llm.Message) {
	for _, message := range opening {
		if message.Role == llm.System {
			continue
		}
		if found := turnsMark.FindStringSubmatch(message.Content); found != nil && message.Role == llm.User {
			m.addMark(found[1])
		}
		if found := answersMark.FindStringSubmatch(message.Content); found != nil {
			m.addMark(found[1])
		}
		if found := peoplesMark.FindStringSubmatch(message.Content); found != nil {
			m.people = found[1]
			m.addMark(m.people)
		}
	}
}

func (m *memory) addMark(mark string) {
	if mark != "" && !slices.Contains(m.live, mark) {
		m.live = append(m.live, mark)
	}
}
