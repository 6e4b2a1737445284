package page

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
)

// compare lets a reader compare any two answers. At first it shows a likely pair.
type compare struct {
	Labels      []string
	Left, Right string
	Lines       []diffLine
	Files       []fileChange
}

// diffLine is a line of two compared texts: '-' for the left text only, '+' for the right text
// only, ' ' for both.
type diffLine struct {
	Kind string // del, add or same
	Sign string
	Text string
}

// fileChange is a path in either of two answers.
type fileChange struct {
	Path, Change string // Change is added, removed, changed or same
}

// compareOf compares the final answer with its predecessor, or else with the runner-up.
func compareOf(s *record.Session) compare {
	var c compare
	for _, p := range s.Answers() {
		c.Labels = append(c.Labels, p.Answer.Label)
	}
	if len(c.Labels) < 2 {
		return c
	}
	slices.SortFunc(c.Labels, compareLabels)
	left, right := likelyPair(s)
	c.Left, c.Right = left.Answer.Label, right.Answer.Label
	c.Lines = diffLines(left.Answer.Text, right.Answer.Text)
	c.Files = fileChanges(left.Answer.Files, right.Answer.Files)
	return c
}

// compareLabels orders labels by the numbers in them.
func compareLabels(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// likelyPair returns the two answers to compare first. The right one is the final answer, or else
// the newest. The left one is the previous answer of the same agent, or else the newest answer of
// the other agent with the most votes.
func likelyPair(s *record.Session) (left, right *record.Step) {
	answers := s.Answers()
	right = s.Final()
	if right == nil || right.Answer == nil {
		right = answers[len(answers)-1]
	}
	for _, p := range answers {
		switch {
		case p == right:
		case p.Agent == right.Agent && p.Number < right.Number:
			left = p
		case left == nil || left.Agent != right.Agent && s.State.Votes[p.Agent] >= s.State.Votes[left.Agent]:
			left = p
		}
	}
	return left, right
}

// diffLines compares two texts line by line.
func diffLines(left, right string) []diffLine {
	left, right = withNewline(clean(left)), withNewline(clean(right))
	if left == right {
		return sameLines(left)
	}
	const all = 1 << 20 // enough lines of context for all
	u, err := udiff.ToUnifiedDiff("", "", left, udiff.Lines(left, right), all)
	if err != nil || len(u.Hunks) == 0 {
		return sameLines(right)
	}
	var lines []diffLine
	for _, l := range u.Hunks[0].Lines {
		content := strings.TrimSuffix(l.Content, "\n")
		switch l.Kind {
		case udiff.Delete:
			lines = append(lines, diffLine{"del", "−", content})
		case udiff.Insert:
			lines = append(lines, diffLine{"add", "+", content})
		default:
			lines = append(lines, diffLine{"same", " ", content})
		}
	}
	return lines
}

// withNewline makes a text end with exactly one newline.
func withNewline(s string) string { return strings.TrimRight(s, "\n") + "\n" }

func sameLines(s string) []diffLine {
	var lines []diffLine
	for l := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		lines = append(lines, diffLine{"same", " ", l})
	}
	return lines
}

// fileChanges compares two lists of files by path and content.
func fileChanges(left, right []artifact.File) []fileChange {
	before := map[string]artifact.File{}
	for _, f := range left {
		before[f.Path] = f
	}
	var changes []fileChange
	for _, f := range right {
		old, known := before[f.Path]
		delete(before, f.Path)
		change := "same"
		switch {
		case !known:
			change = "added"
		case old != f:
			change = "changed"
		}
		changes = append(changes, fileChange{line(f.Path), change})
	}
	for path := range before {
		changes = append(changes, fileChange{line(path), "removed"})
	}
	slices.SortFunc(changes, func(a, b fileChange) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// isText reports whether the beginning of a file looks like text.
func isText(data []byte) bool {
	const enough = 8 << 10
	head := data[:min(len(data), enough)]
	return !bytes.ContainsRune(head, 0) && strings.ToValidUTF8(string(head[:max(0, len(head)-4)]), "") == string(head[:max(0, len(head)-4)])
}
