package transcript

import (
	"fmt"
	"io"
	"strings"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/excerpt"
	"conclave/engine/step"
)

// maxText is how much of one text is shown, in bytes, unless all of it is.
const maxText = 1200

// Step is a step with what is on record of it.
type Step struct {
	Agent  string
	Number int
	step.Transcript

	// Failure is why the step was given up, nil if it was not.
	Failure *artifact.Error
}

// over reports whether the step runs no more. One that was given up before
// anything was kept has no transcript, and is over nevertheless.
func (s Step) over() bool { return s.Over || s.Failure != nil }

// Options say how a step is shown.
type Options struct {
	Full bool           // texts are not cut
	Zone *time.Location // of the times; nil for UTC
}

// Print shows a step.
func Print(w io.Writer, s Step, o Options) error {
	p := &printer{options: o, tools: map[string]string{}}
	if p.options.Zone == nil {
		p.options.Zone = time.UTC
	}
	p.head(s)
	for _, l := range s.Lines {
		p.entry(l)
	}
	p.foot(s)
	_, err := io.WriteString(w, p.out.String())
	return err
}

// printer draws one step.
type printer struct {
	out     strings.Builder
	options Options
	tools   map[string]string // names of the tools that were called, by call ID
	day     string            // of the entry before
}

func (p *printer) head(s Step) {
	started := s.Claim.StartedAt.In(p.options.Zone)
	p.day = started.Format(time.DateOnly)
	p.line(0, "%s · step %03d · %s · %s", progress.Line(s.Agent), s.Number, started.Format("2006-01-02 15:04:05 MST"), end(s))
	if len(s.Claim.Labels) > 0 {
		p.line(0, "shown at its start: %s", progress.Line(strings.Join(s.Claim.Labels, ", ")))
	}
}

// end is how a step ended, in a few words.
func end(s Step) string {
	switch {
	case s.Commit != nil:
		return progress.Line(s.Commit.Kind)
	case s.over():
		return "ended without an action"
	default:
		return "not over"
	}
}

func (p *printer) foot(s Step) {
	p.line(0, "")
	if len(s.Lines) == 0 {
		switch {
		case s.over():
			p.line(0, "no transcript of this step was kept")
		default:
			p.line(0, "nothing is kept yet: that begins with the model's first reply")
		}
	}
	used := s.Usage()
	words := end(s) + " · " + progress.Plural(int(used.ModelCalls), "model call") + " · " + progress.Cost(used)
	if s.Commit != nil {
		words += " · " + progress.Clock(s.Commit.Timestamp.Sub(s.Claim.StartedAt))
	}
	p.line(0, "%s", words)
	if s.Failure != nil && s.Commit == nil {
		p.line(0, "given up: %s", progress.Line(s.Failure.Type+": "+s.Failure.Message))
	}
	if !s.over() {
		p.line(0, "The step runs, or was cut off and has not gone on: this is what was kept so far.")
	}
}

// line adds a line, indented by so many levels.
func (p *printer) line(level int, format string, args ...any) {
	text := strings.Repeat("  ", level) + fmt.Sprintf(format, args...)
	p.out.WriteString(strings.TrimRight(text, " ") + "\n")
}

// text adds what somebody wrote, line by line, cut if it is long.
func (p *printer) text(level int, text string) {
	text = strings.TrimRight(progress.Plain(text), "\n")
	if text == "" {
		p.line(level, "(empty)")
		return
	}
	rest := 0
	if !p.options.Full {
		head, _ := excerpt.Of(text, maxText)
		rest = len(text) - len(head)
		text = strings.TrimRight(head, "\n")
	}
	for line := range strings.SplitSeq(text, "\n") {
		p.line(level, "%s", line)
	}
	if rest > 0 {
		p.line(level, "… %d more bytes (--full)", rest)
	}
}
