package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"conclave/cmd/conclave/record"
	"conclave/engine/check"
	"conclave/engine/coordination"
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
				ids, j.Checks = append(ids, c.Check), append(j.Checks, checkColumn{line(c.Title()), fails})
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
	row := scoredRow{Label: p.Answer.Label, Verdict: line(string(e.Verdict)), Ceiling: ceilingWords(e.Ceiling())}
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

// ceilingWords describes how close an approach is to its best result.
func ceilingWords(c coordination.CeilingStatus) string {
	return strings.ReplaceAll(strings.TrimPrefix(line(string(c)), "ceiling_"), "_", " ")
}

func checkedOf(p *record.Step) []checked {
	var list []checked
	for _, each := range p.Checks {
		list = append(list, checkOf(each))
	}
	return list
}

func checkOf(c check.Result) checked {
	one := checked{Name: line(c.Title()), Outcome: "failed", Class: "failed", Output: clean(c.Output), Seconds: fmt.Sprintf("%.1f s", c.Seconds)}
	if c.Passed {
		one.Outcome, one.Class = "passed", "passed"
	}
	switch {
	case c.Limit != "":
		one.Detail = "ended by a limit: " + line(c.Limit)
	case c.ExitCode != nil:
		one.Detail = fmt.Sprintf("exit code %d", *c.ExitCode)
	}
	return one
}

// evaluation is an evaluation as the data of a template.
type evaluation struct {
	Verdict, Ceiling, Spent string
	HTML                    template.HTML
	Packet                  cut
	Plan                    *plan
	Source                  string // where a live page loads the transcript from
	ID                      string
	Entries                 []entry
}

// plan is the evaluator's plan for the next version.
type plan struct {
	Objective, Explanation string
	Tasks                  []task
	Preserve               []string
}

type task struct{ ID, Description, Verification string }

// evaluationOf prepares the evaluation of an answer. It returns nil for an answer without one.
func evaluationOf(p *record.Step, c *cutter) *evaluation {
	e := p.Evaluation
	if e == nil {
		return nil
	}
	one := &evaluation{
		Verdict: line(string(e.Verdict)), Ceiling: ceilingWords(e.Ceiling()), ID: "evaluation-" + p.Answer.Label,
		Packet: c.cut(e.Packet, p.Dir+"evaluator/critique_packet.md"),
	}
	one.HTML = c.markdown(one.Packet.Text)
	if !e.Started.IsZero() {
		one.Spent = seconds(e.Ended.Sub(e.Started)) + " · " + tokens(e.Usage) + " tokens · " + money(e.Usage)
	}
	if t := e.Tasks; t != nil {
		one.Plan = &plan{Objective: clean(t.Objective), Explanation: clean(t.Assessment.Explanation)}
		for _, each := range slices.Concat(t.Tasks, t.EvolutionTasks) {
			one.Plan.Tasks = append(one.Plan.Tasks, task{line(each.ID), clean(each.Description), clean(each.Verification)})
		}
		for _, each := range t.Preserve {
			one.Plan.Preserve = append(one.Plan.Preserve, clean(each))
		}
	}
	return one
}
