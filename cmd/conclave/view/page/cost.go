package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/llm"
)

// cost has the usage of the session by step. The board has that of the agents.
type cost struct {
	Total llm.Usage
	Steps []costRow
	Line  costLineDrawing
}

// Calls returns the number of model calls.
func (c cost) Calls() int { return int(c.Total.ModelCalls) }

// costRow is a usage with its share of the largest usage.
type costRow struct {
	Name, Href, Class     string
	Usage                 llm.Usage
	Input, Cached, Output string // widths of the bars
	CachedX, OutputX      string
	Drawn                 template.HTML // HTML of an earlier drawing
}

// ID returns the ID of the row's part of the page.
func (r costRow) ID() string {
	return attributeID("cost", r.Name)
}

// costLineDrawing is the cumulative cost over time, in a box of 1000 by 100.
type costLineDrawing struct {
	Points string // empty without two points
	Last   string
	Budget string // empty without a budget
	Y      string // y coordinate of the budget's line
	Share  string // share of the budget
}

func costOf(s *record.Session) cost {
	c := cost{Total: s.State.Cost}
	var steps []llm.Usage
	for _, p := range s.Steps {
		steps = append(steps, p.Usage)
		if p.Evaluation != nil {
			steps = append(steps, p.Evaluation.Usage)
		}
	}
	most := tokenScale(steps)
	for _, p := range s.Steps {
		at := slices.IndexFunc(s.Agents, func(a *record.Agent) bool { return a.ID == p.Agent })
		name := fmt.Sprintf("%s %03d", p.Agent, p.Number)
		if p.Usage.ModelCalls > 0 {
			c.Steps = append(c.Steps, newCostRow(name, "#"+stepID(p), colorClass(at), p.Usage, most))
		}
		if e := p.Evaluation; e != nil && e.Usage.ModelCalls > 0 {
			c.Steps = append(c.Steps, newCostRow(name+" evaluation", "#answer-"+p.Answer.Label, colorClass(at), e.Usage, most))
		}
	}
	c.Line = drawCostLine(s)
	return c
}

// tokenScale returns the scale of the drawing: the largest number of tokens of any usage, at least
// 1. It is rounded up, so that the scale of a running session rarely changes.
func tokenScale(all []llm.Usage) float64 {
	most, scale := int64(1), 1.0
	for _, u := range all {
		most = max(most, u.InputTokens+u.OutputTokens)
	}
	for scale < float64(most) {
		scale *= 1.25
	}
	return scale
}

// newCostRow draws fresh input, cached input and output side by side.
func newCostRow(name, href, class string, u llm.Usage, most float64) costRow {
	fresh := float64(max(0, u.InputTokens-u.CachedInputTokens)) / most
	cached, output := float64(u.CachedInputTokens)/most, float64(u.OutputTokens)/most
	return costRow{
		Name: name, Href: href, Class: class, Usage: u,
		Input: cssPercent(fresh), Cached: cssPercent(cached), CachedX: cssPercent(fresh), Output: cssPercent(output), OutputX: cssPercent(fresh + cached),
	}
}

// drawCostLine draws the cost after each step, in dollars if the prices are known, or else in tokens.
func drawCostLine(s *record.Session) costLineDrawing {
	inUSD := s.State.Cost.TotalUSD != nil && *s.State.Cost.TotalUSD > 0
	value := func(u llm.Usage) float64 {
		if inUSD {
			return u.AtLeastUSD()
		}
		return float64(u.InputTokens + u.OutputTokens)
	}
	show := func(v float64) string {
		if inUSD {
			return fmt.Sprintf("$%.4f", v)
		}
		return cli.Count(int64(v)) + " tokens"
	}
	budget := s.Team.Orchestrator.Budget.Tokens
	if inUSD {
		budget = s.Team.Orchestrator.Budget.USD
	}
	var d costLineDrawing
	var sum float64
	paid := paymentsOf(s)
	for _, p := range paid {
		sum += value(p.usage)
	}
	if len(paid) < 2 || sum <= 0 {
		return d
	}
	top := sum
	if budget != nil && *budget > 0 {
		top = max(sum, *budget)
		d.Budget = show(*budget)
		d.Y, d.Share = fmt.Sprintf("%.1f", 100-100**budget/top), fmt.Sprintf("%.0f %%", 100*sum/(*budget))
	}
	d.Last = show(sum)
	d.Points = costPoints(s, paid, value, top)
	return d
}

// payment is the cost of a step or an evaluation, due at its end.
type payment struct {
	at    time.Time
	usage llm.Usage
}

func paymentsOf(s *record.Session) []payment {
	var all []payment
	for _, p := range s.Steps {
		all = append(all, payment{p.Ended, p.Usage})
		if e := p.Evaluation; e != nil {
			all = append(all, payment{e.Ended, e.Usage})
		}
	}
	all = slices.DeleteFunc(all, func(p payment) bool { return p.at.IsZero() || p.usage.ModelCalls == 0 })
	slices.SortStableFunc(all, func(a, b payment) int { return a.at.Compare(b.at) })
	return all
}

func costPoints(s *record.Session, paid []payment, value func(llm.Usage) float64, top float64) string {
	axis := newAxis(s, s.Ended())
	var b strings.Builder
	b.WriteString("0,100")
	sum, drawn := 0.0, -1.0
	for _, p := range paid {
		x := 1000 * axis.positionOf(p.at)
		if x-drawn < 4 { // too near to be seen
			sum += value(p.usage)
			continue
		}
		drawn = x
		fmt.Fprintf(&b, " %.1f,%.1f", x, 100-100*sum/top)
		sum += value(p.usage)
		fmt.Fprintf(&b, " %.1f,%.1f", x, 100-100*sum/top)
	}
	fmt.Fprintf(&b, " 1000,%.1f", 100-100*sum/top)
	return b.String()
}
