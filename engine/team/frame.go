package team

import (
	"strings"

	"conclave/engine/patch"
	"conclave/engine/text"
)

// maxShown bounds the texts of all answers in a prompt, in bytes: about 30,000
// tokens. In a small context window they get only a share of it.
const maxShown = 120 << 10

// minShown is the size, in bytes, up to which an answer is always shown in full, unless the
// window is small. maxShown is large enough for this with any number of agents.
const minShown = 4 << 10

// mostShown returns maxShown for a context window of the given tokens: at most a quarter of
// it, at three bytes per token. A window of 0 is unknown.
func mostShown(window int) int {
	const part, bytesPerToken = 4, 3
	if window <= 0 || window >= maxShown*part/bytesPerToken {
		return maxShown
	}
	return window * bytesPerToken / part
}

// leastShown returns minShown for such a window.
func leastShown(window int) int { return mostShown(window) / (maxShown / minShown) }

// framed is an answer as the templates print it between delimiter lines.
type framed struct {
	Label string
	Agent string
	Text  string
	Files int // 0 when the step has no file tools and no base
	Kept  bool
	Cut   int // bytes shown of a truncated text, else 0
	Bytes int

	Based    bool     // Files are changes of a base
	Mark     string   // mark that delimits Changed
	Changed  []string // files that it changes, with their kinds
	Unlisted int      // number of further files
	Diff     string   // path of the change as a patch; empty without file tools
}

// frameAnswers sanitizes answers and truncates the longest ones so that all texts together
// have at most total bytes. The first mark delimits lists of changed files.
func (t task) frameAnswers(answers []answer, marks []string, total int) []framed {
	all := make([]framed, 0, len(answers))
	sizes := make([]int, 0, len(answers))
	for _, a := range answers {
		clean := text.Within(a.Text, marks...)
		f := framed{Label: a.Label, Agent: a.agent(), Text: clean, Bytes: len(clean)}
		if t.Files {
			f.Files, f.Kept = a.Files, a.Kept
		}
		if t.Based {
			t.listChanges(&f, a, marks, total/8/len(answers))
		}
		all = append(all, f)
		sizes = append(sizes, len(clean))
	}
	limit := text.Share(sizes, total)
	for i := range all {
		if head, cut := text.Head(all[i].Text, limit); cut {
			all[i].Text, all[i].Cut = head, len(head)
		}
	}
	return all
}

// maxListed bounds, in bytes, the list of an answer's changed files.
const maxListed = 4 << 10

// listChanges lists the files that an answer changes, in at most room bytes.
func (t task) listChanges(f *framed, a answer, marks []string, room int) {
	f.Based, f.Files, f.Mark = true, a.Files, marks[0]
	if t.Files && a.Files > 0 && !a.Replaced {
		f.Diff = "peers/" + f.Agent + ".diff"
	}
	room = min(room, maxListed)
	for i, c := range a.Changed {
		line := text.OneLine(text.Within(c.Kind+" "+patch.Quote(c.Path), marks...))
		if room -= len(line) + 1; room < 0 {
			f.Unlisted = len(a.Changed) - i
			return
		}
		f.Changed = append(f.Changed, line)
	}
}

// bounded truncates a reason, a summary or a piece of advice to maxReason.
func bounded(s string) string {
	head, _ := text.Head(s, maxReason)
	return head
}

// wholeLine is the length, in bytes, at which wholeText breaks lines: file tools show
// only the beginning of longer ones.
const wholeLine = 2 << 10

// wholeText returns an answer's text for peers/agent<N>.md, sanitized, with its longest lines
// broken, if possible after a space. It is empty for a text that a step with such a context
// window never truncates.
func wholeText(s string, window int) string {
	s = text.Within(s)
	if len(s) <= leastShown(window) {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(s + "\n") {
		for len(line) > wholeLine {
			part, _ := text.Head(line, wholeLine)
			if at := strings.LastIndexAny(part, " \t"); at >= 0 {
				part = part[:at+1]
			}
			line = line[len(part):]
			b.WriteString(part + "\n")
		}
		b.WriteString(line)
	}
	return b.String()
}
