package team

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/coordination"
	"conclave/engine/llm"
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

// digestOf returns the digest of an answer.
func digestOf(text, manifest string) coordination.Digest {
	d := coordination.Digest{Exact: digest(text, manifest), Normalized: digest(normalize(text), manifest)}
	if line, found := lastLine(text); found {
		d.ExactLine, d.NormalizedLine = digest(line), digest(normalize(line))
	}
	return d
}

// normalize returns text after NFKC and case folding, with white space collapsed and without
// closing punctuation.
func normalize(text string) string {
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

// saw reports whether the author of a was shown the answer b of another agent.
func (a answer) saw(b answer) bool {
	step := a.Saw[b.Number]
	return step > 0 && step == b.Step && a.Number != b.Number
}

// agreements returns the groups of equal answers, ordered by their lowest numbers. It omits
// answers whose authors were shown an equal one.
func (t task) agreements(answers []answer) []agreement {
	if !t.ShowAgreement || t.Alone || t.divided() {
		return nil
	}
	lines := t.comparesLines(answers)
	var groups []agreement
	var firsts []answer
	for _, a := range answers {
		if slices.ContainsFunc(answers, func(b answer) bool {
			return a.saw(b) && a.Digest.Equal(b.Digest, t.Agree, true)
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
		return Class{}, fmt.Errorf("reading the class of an answer: %w", err)
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
