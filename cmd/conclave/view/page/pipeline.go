package page

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/pipeline"
	"conclave/workflows"
)

// pipelineView is a pipeline's run as the data of a template.
type pipelineView struct {
	*record.Pipeline
	Live     *Live // nil: the page is not followed
	Now      time.Time
	Graph    graph
	Text     cut
	HTML     template.HTML
	Steps    []visitView
	Took     string
	Activity []cli.Activity
}

// visitView is one visit of a step.
type visitView struct {
	record.Visit
	ID, Took string
	Text     cut
	HTML     template.HTML
	Entries  []entry
	Files    []file
	Linked   bool // whether it links to the page of its session
}

// Shown returns the status, or the reason why the run waits.
func (v *pipelineView) Shown() string {
	switch {
	case v.Parked != nil:
		return workflows.Parked
	case v.Paused && v.Running():
		return workflows.Paused
	case v.Status == "":
		return "no status yet"
	}
	return v.Status
}

// CanRetry reports whether the run ended without a result and can continue.
func (v *pipelineView) CanRetry() bool {
	return v.Status == string(pipeline.Failed) || v.Status == workflows.Cancelled
}

// graph is the drawing of a pipeline with the path that a run took.
type graph struct {
	Width, Height int
	Nodes         []node
	Edges         []edge
}

type node struct {
	Name, Note string
	Y          int
	Visited    bool
	Href       string
}

type edge struct {
	Path, Tip, Text, Title string
	X, Y                   int // position of the text
}

// The sizes of the graph's drawing, in pixels.
const (
	nodeHeight = 52
	nodeWidth  = 230
)

// Pipeline renders a standalone page of a pipeline's run, smaller than a million bytes.
func Pipeline(ctx context.Context, p *record.Pipeline, now time.Time) ([]byte, error) {
	_, page, err := drawPipeline(ctx, p, nil, now)
	return page, err
}

// drawPipeline prepares a page that fits the limit.
func drawPipeline(ctx context.Context, p *record.Pipeline, live *Live, now time.Time) (v *pipelineView, page []byte, err error) {
	for _, limit := range limits {
		c := &cutter{limit: max(limit, 200), images: 450_000}
		v = newPipelineView(p, live, c, limit > 0, now)
		v.attachFiles(ctx, c, limit > 0)
		if page, err = executeTemplate("pipeline", v); err != nil || len(page) < maxPage {
			break
		}
	}
	return v, page, err
}

// newPipelineView prepares a run for the template, with its transcripts if told is set.
func newPipelineView(p *record.Pipeline, live *Live, c *cutter, told bool, now time.Time) *pipelineView {
	v := &pipelineView{Pipeline: p, Live: live, Now: now, Graph: graphOf(p), Text: c.cutText(p.Final, "result.json")}
	v.HTML = c.renderMarkdown(v.Text.Text)
	end := now
	if !p.Running() {
		end = p.Ended()
	}
	if !p.Created.IsZero() && end.After(p.Created) {
		v.Took = cli.Clock(end.Sub(p.Created))
	}
	if live != nil {
		v.Activity = live.Running
	}
	for i, each := range p.Visits {
		one := visitView{
			Visit: each, ID: fmt.Sprintf("visit-%d", i+1), Text: c.cutText(each.Text, each.Dir+"answer.json"), Linked: live != nil,
		}
		one.HTML = c.renderMarkdown(one.Text.Text)
		if !each.Started.IsZero() {
			one.Took = formatDuration(endOf(each, now).Sub(each.Started))
		}
		if told {
			one.Entries = entriesOf(each.Transcript, c, each.Dir+"transcript.jsonl")
		}
		v.Steps = append(v.Steps, one)
	}
	return v
}

// attachFiles adds the files of the visits. A live page has their addresses, a standalone one their
// contents if told is set.
func (v *pipelineView) attachFiles(ctx context.Context, c *cutter, told bool) {
	var read contents
	if told && v.Live == nil {
		read = v.Run.Content
	}
	shown := shownFiles{}
	for i := range v.Steps {
		visit := &v.Steps[i]
		of := folder{part: visit.ID, name: fmt.Sprintf("visit %d", i+1), dir: visit.Dir}
		for _, each := range visit.Visit.Files {
			f := fileOf(ctx, of, each, c, read, shown)
			if v.Live != nil {
				f.Source = fmt.Sprintf("%s/visits/%d/%s", v.Live.Base, i+1, escapePath(each.Path))
			}
			visit.Files = append(visit.Files, f)
		}
	}
}

// DrawPipeline renders a live page of a pipeline's run.
func DrawPipeline(ctx context.Context, p *record.Pipeline, live Live, now time.Time) (Drawn, error) {
	v, _, err := drawPipeline(ctx, p, &live, now)
	return Drawn{template: "pipeline", live: live, data: func(l *Live) any { one := *v; one.Live = l; return &one }, parts: v.drawParts}, err
}

func (v *pipelineView) drawParts() ([]Part, error) {
	parts, err := sectionsOf(v, "head:pipehead", "decision:pipetext", "steer:pipesteer", "graph:pipegraph")
	for i := 0; i < len(v.Steps) && err == nil; i++ {
		var html []byte
		html, err = executeTemplate("visit", v.Steps[i])
		parts = append(parts, Part{ID: v.Steps[i].ID, Parent: "step-list", HTML: string(html)})
	}
	return parts, err
}

func endOf(v record.Visit, now time.Time) time.Time {
	switch n := len(v.Transcript.Lines); {
	case !v.Ended.IsZero():
		return v.Ended
	case n > 0:
		return v.Transcript.Lines[n-1].Time
	}
	return now
}

// PipelineText returns the content of ANSWER.md for a run: its final text, or its status.
func PipelineText(p *record.Pipeline) string {
	if p.Final != "" {
		return strings.TrimRight(cleanText(p.Final), "\n") + "\n"
	}
	return "The run has no final text; its status is " + cleanLine(p.Status) + ".\n"
}

// graphOf draws the steps in configured order, and each transition between two steps
// with its count.
func graphOf(p *record.Pipeline) graph {
	names := slices.Clone(p.Nodes)
	for _, v := range p.Visits {
		if !slices.Contains(names, v.Step) {
			names = append(names, v.Step)
		}
	}
	g := graph{Height: len(names)*nodeHeight + 8}
	for i, name := range names {
		g.Nodes = append(g.Nodes, nodeOf(p, name, 6+i*nodeHeight))
	}
	var taken []*way
	for i := 1; i < len(p.Visits); i++ {
		from, to := slices.Index(names, p.Visits[i-1].Step), slices.Index(names, p.Visits[i].Step)
		at := slices.IndexFunc(taken, func(w *way) bool { return w.from == from && w.to == to })
		if at < 0 {
			at, taken = len(taken), append(taken, &way{from: from, to: to})
		}
		taken[at].times++
		if v := p.Visits[i]; !v.Ended.IsZero() {
			taken[at].worked += v.Ended.Sub(v.Started)
		}
	}
	for _, w := range taken {
		e, right := edgeOf(*w)
		e.Title = fmt.Sprintf("from %s to %s: %s, %s of work after it", cleanLine(names[w.from]), cleanLine(names[w.to]), cli.Plural(w.times, "time"), formatDuration(w.worked))
		g.Edges = append(g.Edges, e)
		g.Width = max(g.Width, right)
	}
	g.Width = max(g.Width, nodeWidth) + 90
	return g
}

func nodeOf(p *record.Pipeline, name string, y int) node {
	n := node{Name: cleanLine(name), Y: y}
	visits, worked := 0, time.Duration(0)
	for i, v := range p.Visits {
		if v.Step != name {
			continue
		}
		if visits++; n.Href == "" {
			n.Href = fmt.Sprintf("#visit-%d", i+1)
		}
		if !v.Ended.IsZero() {
			worked += v.Ended.Sub(v.Started)
		}
	}
	if n.Visited = visits > 0; n.Visited {
		n.Note = cli.Plural(visits, "visit") + ", " + formatDuration(worked)
	} else {
		n.Note = "not visited"
	}
	return n
}

// way is a transition between two steps.
type way struct {
	from, to int // indices of the steps
	times    int
	worked   time.Duration // time worked in the visits to which it led
}

// edgeOf draws a transition to the right of the steps. A longer transition is farther to
// the right; a backward one starts and ends lower.
func edgeOf(w way) (e edge, right int) {
	y1, y2 := 6+w.from*nodeHeight+12, 6+w.to*nodeHeight+12
	away := 34 + 22*max(w.from-w.to, w.to-w.from)
	if w.to <= w.from {
		y1, y2, away = y1+15, y2+15, away+84
	}
	if w.from == w.to {
		y1 -= 18
	}
	x := nodeWidth + 2
	e = edge{
		Path: fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y1, x+away, y1, x+away, y2, x+6, y2), Tip: fmt.Sprintf("M%d %dl8 -4v8z", x, y2),
		X: x + away*3/4 + 4, Y: (y1+y2)/2 + 4, Text: formatDuration(w.worked),
	}
	if w.times > 1 {
		e.Text = fmt.Sprintf("%d×, %s", w.times, e.Text)
	}
	return e, x + away
}
