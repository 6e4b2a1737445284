package page

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/session/check"
)

// judged has the outcomes of checks and the scores of evaluations, with a row for each answer.
type judged struct {
	Checks   []checkColumn
	Checked  []checkedRow
	Criteria []string // IDs of the columns
	Scored   []scoredRow
}

type checkColumn struct {
	Name   string
	Broken bool // it fails on every answer and does not count
}

type checkedRow struct {
	Label string
	Cells []checked // Outcome is empty for a check that was not run
}

type scoredRow struct {
	Label, Verdict, Ceiling string
	Scores                  []string // empty for a missing one
	Total                   string
}

// Any reports whether there are any outcomes or scores.
func (j judged) Any() bool { return len(j.Checked)+len(j.Scored) > 0 }

func judgedOf(s *record.Session) judged {
	var j judged
	var ids []string
	answers, broken := s.Answers(), s.Broken()
	slices.SortStableFunc(answers, func(a, b *record.Step) int { return compareLabels(a.Answer.Label, b.Answer.Label) })
	for _, p := range answers {
		for _, c := range p.Checks {
			if !slices.Contains(ids, c.Check) {
				fails := slices.ContainsFunc(broken, func(b check.Result) bool { return b.Check == c.Check })
				ids, j.Checks = append(ids, c.Check), append(j.Checks, checkColumn{cleanLine(c.Title()), fails})
			}
		}
		if p.Evaluation != nil {
			for name := range p.Evaluation.Scores {
				if !slices.Contains(j.Criteria, name) {
					j.Criteria = append(j.Criteria, name)
				}
			}
		}
	}
	slices.SortFunc(j.Criteria, compareLabels)
	for _, p := range answers {
		if len(p.Checks) > 0 {
			j.Checked = append(j.Checked, checkedRow{p.Answer.Label, cellsOf(p, ids)})
		}
		if p.Evaluation != nil {
			j.Scored = append(j.Scored, scoredOf(p, j.Criteria))
		}
	}
	return j
}

// cellsOf returns the outcomes of an answer's checks, in the order of the columns.
func cellsOf(p *record.Step, ids []string) []checked {
	cells := make([]checked, len(ids))
	for _, c := range p.Checks {
		cells[slices.Index(ids, c.Check)] = checkOf(c)
	}
	return cells
}

func scoredOf(p *record.Step, criteria []string) scoredRow {
	e := p.Evaluation
	row := scoredRow{Label: p.Answer.Label, Verdict: cleanLine(string(e.Verdict)), Ceiling: ceilingWords(e.Ceiling())}
	total := 0.0
	for _, name := range criteria {
		score, known := e.Scores[name]
		total += score
		if cell := fmt.Sprintf("%g", score); known {
			row.Scores = append(row.Scores, cell)
		} else {
			row.Scores = append(row.Scores, "")
		}
	}
	row.Total = fmt.Sprintf("%g", total)
	return row
}

func ceilingWords(c coordination.CeilingStatus) string {
	return strings.ReplaceAll(strings.TrimPrefix(cleanLine(string(c)), "ceiling_"), "_", " ")
}

func checkedOf(p *record.Step) []checked {
	var list []checked
	for _, each := range p.Checks {
		list = append(list, checkOf(each))
	}
	return list
}

func checkOf(c check.Result) checked {
	one := checked{Name: cleanLine(c.Title()), Outcome: "failed", Class: "failed", Output: cleanText(c.Output), Seconds: fmt.Sprintf("%.1f s", c.Seconds)}
	if c.Passed {
		one.Outcome, one.Class = "passed", "passed"
	}
	switch {
	case c.Limit != "":
		one.Detail = "ended by a limit: " + cleanLine(c.Limit)
	case c.ExitCode != nil:
		one.Detail = fmt.Sprintf("exit code %d", *c.ExitCode)
	}
	return one
}

// evaluation is an evaluation as the data of a template.
type evaluation struct {
	*record.Evaluation
	Limit, Spent string // how close the approach is to its best result; duration and cost
	HTML         template.HTML
	Critique     cut
	Source       string // where a live page loads the transcript from
	ID           string
	Entries      []entry
}

// evaluationOf prepares the evaluation of an answer. It returns nil for an answer without one.
func evaluationOf(p *record.Step, c *cutter) *evaluation {
	e := p.Evaluation
	if e == nil {
		return nil
	}
	one := &evaluation{
		Evaluation: e, Limit: ceilingWords(e.Ceiling()), ID: "evaluation-" + p.Answer.Label,
		Critique: c.cutText(e.Packet, p.Dir+record.Evaluations+"critique_packet.md"),
	}
	one.HTML = c.renderMarkdown(one.Critique.Text)
	if !e.Started.IsZero() {
		one.Spent = formatDuration(e.Ended.Sub(e.Started)) + " · " + formatTokens(e.Usage) + " tokens · " + formatPrice(e.Usage)
	}
	return one
}

// compare lets a reader compare any two answers, which the script does. It begins with a likely pair.
type compare struct {
	Labels      []string
	Left, Right string
	Based       bool // the files are those that differ from the base
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
	c.Left, c.Right, c.Based = left.Answer.Label, right.Answer.Label, s.Base != ""
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

func isText(data []byte) bool {
	const enough = 8 << 10
	head := data[:min(len(data), enough)]
	return !bytes.ContainsRune(head, 0) && strings.ToValidUTF8(string(head[:max(0, len(head)-4)]), "") == string(head[:max(0, len(head)-4)])
}
