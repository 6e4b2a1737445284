package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/session/quality"
	"conclave/engine/step"
	"conclave/engine/text"
)

// maxText is the length, in bytes, to which a text is truncated without --full.
const maxText = 1200

// shownStep is a step with its transcript.
type shownStep struct {
	Agent  string
	Number int
	step.Transcript

	// Failure is the final error of the step, or nil if it did not fail.
	Failure *artifact.Error

	Evaluation bool            // the transcript is that of the evaluation of its answer
	Rating     *quality.Rating // rating of its answer by the evaluator; nil without one
	Hint       string          // the command line that shows the evaluation
}

// isOver reports whether the step has ended. A step that failed before its first reply has no transcript.
func (s shownStep) isOver() bool { return s.Over || s.Failure != nil }

// formatOptions are the options of formatStep.
type formatOptions struct {
	Full bool           // do not truncate texts
	Zone *time.Location // zone of the times; nil for UTC
}

func formatStep(s shownStep, o formatOptions) string {
	p := &printer{options: o}
	if p.options.Zone == nil {
		p.options.Zone = time.UTC
	}
	p.printHead(s)
	for _, b := range record.Blocks(s.Lines) {
		p.printBlock(b)
	}
	p.printFoot(s)
	return p.out.String()
}

// printer formats one step.
type printer struct {
	out     strings.Builder
	options formatOptions
	day     string // day of the previous entry
}

func (p *printer) printHead(s shownStep) {
	started := s.Claim.StartedAt.In(p.options.Zone)
	p.day = started.Format(time.DateOnly)
	of := ""
	if s.Evaluation {
		of = " · evaluation of its answer"
	}
	p.printLine(0, "%s · step %03d%s · %s · %s", cli.Line(s.Agent), s.Number, of, started.Format("2006-01-02 15:04:05 MST"), endWords(s))
	if len(s.Claim.Labels) > 0 {
		p.printLine(0, "shown at its start: %s", cli.Line(strings.Join(s.Claim.Labels, ", ")))
	}
}

func endWords(s shownStep) string {
	switch {
	case s.Commit != nil:
		return cli.Line(s.Commit.Kind)
	case s.isOver():
		return "ended without an action"
	default:
		return "not over"
	}
}

func ratingWords(v *quality.Rating) string {
	words := cli.Line(string(v.Verdict))
	for _, s := range v.RoundScores() {
		words += fmt.Sprintf(" · %s %g", s.ID, s.Score)
	}
	return words
}

func (p *printer) printFoot(s shownStep) {
	p.printLine(0, "")
	switch {
	case len(s.Lines) > 0:
	case s.isOver():
		p.printLine(0, "this step has no transcript")
	default:
		p.printLine(0, "no transcript yet: it begins with the model's first reply")
	}
	used := s.Usage()
	words := endWords(s) + " · " + cli.Plural(int(used.ModelCalls), "model call") + " · " + cli.Cost(used)
	if s.Commit != nil {
		words += " · " + cli.Clock(s.Commit.Timestamp.Sub(s.Claim.StartedAt))
	}
	p.printLine(0, "%s", words)
	if s.Rating != nil {
		p.printLine(0, "evaluated: %s; `%s` shows it", ratingWords(s.Rating), s.Hint)
	}
	if s.Failure != nil && s.Commit == nil {
		why := "failed: " + s.Failure.Type + ": " + s.Failure.Message
		if s.Failure.Type == activities.Cancelled {
			why = s.Failure.Message
		}
		p.printLine(0, "%s", cli.Line(why))
	}
	if !s.isOver() {
		p.printLine(0, "The step is running or was interrupted: this is its transcript so far.")
	}
}

func (p *printer) printLine(level int, format string, args ...any) {
	indented := strings.Repeat("  ", level) + fmt.Sprintf(format, args...)
	p.out.WriteString(strings.TrimRight(indented, " ") + "\n")
}

// printText adds a text of a model, a tool or a person. It is truncated unless options.Full is set.
func (p *printer) printText(level int, written string) {
	written = strings.TrimRight(text.Terminal(written), "\n")
	if written == "" {
		p.printLine(level, "(empty)")
		return
	}
	rest := 0
	if !p.options.Full {
		head, _ := text.Head(written, maxText)
		rest = len(written) - len(head)
		written = strings.TrimRight(head, "\n")
	}
	for line := range strings.SplitSeq(written, "\n") {
		p.printLine(level, "%s", line)
	}
	if rest > 0 {
		p.printLine(level, "… %d more bytes (--full)", rest)
	}
}

func (p *printer) printBlock(b record.Block) {
	at := b.Time.In(p.options.Zone)
	p.printLine(0, "")
	if day := at.Format(time.DateOnly); day != p.day {
		p.printLine(0, "%s", day)
		p.day = day
	}
	spent := ""
	if b.Spent != "" {
		spent = " · " + b.Spent
	}
	p.printLine(0, "%s %s%s", at.Format(time.TimeOnly), b.Heading, spent)
	for _, part := range b.Parts {
		p.printLine(1, "%s", part.Name)
		if part.Kind == record.Call {
			p.printArguments(part.Text)
		} else {
			p.printText(2, part.Text)
		}
	}
}

// maxInline is the maximum length, in bytes, of a value printed on the line of its name.
const maxInline = 100

// argument is one argument of a tool call.
type argument struct {
	name, value string
}

// printArguments adds the arguments of a call, or the text if it is not a JSON object.
func (p *printer) printArguments(raw string) {
	list, ok := parseArguments(raw)
	if !ok {
		p.printText(2, raw)
		return
	}
	for _, a := range list {
		name := cli.Line(a.name)
		if len(a.value) <= maxInline && !strings.ContainsAny(a.value, "\r\n") {
			p.printLine(2, "%s: %s", name, text.Terminal(a.value))
			continue
		}
		p.printLine(2, "%s:", name)
		p.printText(3, a.value)
	}
}

// parseArguments returns the members of a single JSON object in order, with decoded strings.
func parseArguments(text string) ([]argument, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var list []argument
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		a := argument{value: string(value)}
		a.name, _ = name.(string)
		var decoded string
		if json.Unmarshal(value, &decoded) == nil && string(value) != "null" {
			a.value = decoded
		}
		list = append(list, a)
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return list, errors.Is(err, io.EOF)
}
