package page

import (
	"context"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strconv"
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
	Home     string
	Now      time.Time
	Graph    graph
	Text     cut
	HTML     template.HTML
	Words    *visitView // the last visit of an agent or a team, if the run ended with tools
	Last     *visitView // the last visit with files
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
	Above    bool // its files are with the result of the run
	Folded   bool // it belongs to one of the items after the first ones
}

// shownItems is the number of items of a for_each whose steps are shown at once.
const shownItems = 12

// isFolded reports whether a branch belongs to an item after the first ones.
func isFolded(branch string) bool {
	return slices.ContainsFunc(strings.Split(branch, "/"), func(part string) bool {
		index, err := strconv.Atoi(part)
		return err == nil && index >= shownItems
	})
}

// Shown returns the status, or the reason why the run waits.
func (v *pipelineView) Shown() string {
	switch {
	case v.Parked != nil:
		return workflows.Parked
	case v.Paused && v.Running():
		return workflows.Paused
	case len(v.Questions) > 0 && v.Running():
		return workflows.Waiting
	case v.Status == "":
		return "no status yet"
	}
	return v.Status
}

// CanRetry reports whether the run ended without a result and can continue.
func (v *pipelineView) CanRetry() bool {
	return v.Status == string(pipeline.Failed) || v.Status == workflows.Cancelled
}

// Frame returns the frame of the page.
func (v *pipelineView) Frame() frame {
	return frame{
		Live: v.Live, Home: v.Home, Title: briefLine(v.Request, 60), Kind: record.Pipelines.Noun, ID: cleanLine(v.ID), Status: v.Shown(), Word: strings.ReplaceAll(v.Shown(), "_", " "), Keys: true,
		Tabs: []tab{{"decision", "Result"}, {"graph", "Way"}, {"steps", "Steps"}},
	}
}

// Wait describes the wait of a run that has not ended.
func (v *pipelineView) Wait() wait {
	at, why := v.Created, "The first step is about to begin."
	switch {
	case len(v.Branches) > 0:
		why = fmt.Sprintf("Open branches of the step %s: %d.", cleanLine(v.Step), len(v.Branches))
	case v.Step != "":
		why = "The step " + cleanLine(v.Step) + " is next or at work."
	}
	if ended := v.Ended(); !ended.IsZero() {
		at = ended
	}
	if len(v.Questions) > 0 && v.Parked == nil && !v.Paused {
		return waitForReply(v.Questions[0])
	}
	return waitFor(v.Parked, v.Paused, why, at)
}

// Actions returns the requests that the run takes in its state.
func (v *pipelineView) Actions() []action {
	s := steering{ID: v.ID, Running: v.Running(), Paused: v.Paused, Stop: "The run ends without a result. What its steps have made stays on record."}
	if v.Parked != nil && v.Running() || v.CanRetry() {
		s.Retry = "Retry the failed step"
	}
	if v.Running() {
		s.Say = "A message to the agents"
	}
	if !v.Running() {
		return v.Live.actions(s)
	}
	return append(v.Live.answerActions(v.ID, v.Questions), v.Live.actions(s)...)
}

// Commands returns the command lines that continue where the page ends.
func (v *pipelineView) Commands() []string {
	if v.Running() {
		return commandLines(v.Live, v.ID, "watch", "status")
	}
	return commandLines(v.Live, v.ID, "result", "diff", "files")
}

// graph is the drawing of a pipeline with the path that a run took.
type graph struct {
	Width, Height int
	Nodes         []node
	Edges         []edge
}

type node struct {
	Name, Note string
	X, Y       int
	Visited    bool
	Href       string
}

type edge struct {
	Path, Tip, Text, Title string
	X, Y                   int // position of the text
}

// The sizes of the graph's drawing, in pixels.
const (
	nodeHeight = 48
	nodeWidth  = 148
	nodeGap    = 44
)

// Pipeline renders a standalone page of a pipeline's run, smaller than a million bytes. Home is the
// address of the list to which it belongs; it is empty without one.
func Pipeline(ctx context.Context, p *record.Pipeline, home string, now time.Time) ([]byte, error) {
	_, page, err := drawPipeline(ctx, p, nil, home, now)
	return page, err
}

// drawPipeline prepares a page that fits the limit.
func drawPipeline(ctx context.Context, p *record.Pipeline, live *Live, home string, now time.Time) (v *pipelineView, page []byte, err error) {
	for _, limit := range limits {
		c := &cutter{limit: max(limit, 200), images: 450_000}
		v = newPipelineView(p, live, c, limit > 0, now)
		v.Home = home
		v.attachFiles(ctx, c, limit > 0)
		v.findResult()
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
			Visit: each, ID: fmt.Sprintf("visit-%d", i+1), Text: c.cutText(each.Text, each.Dir+"answer.json"), Linked: live != nil, Folded: isFolded(string(each.Branch)),
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

// findResult finds the first things that a reader looks for: the files of the run, and the text of an agent or a team
// last if a tool has the last word.
func (v *pipelineView) findResult() {
	for i := range v.Steps {
		one := &v.Steps[i]
		if said := one.Usage.ModelCalls > 0 || one.Team != ""; said && one.Text.Text != "" {
			v.Words = one
		}
		if len(one.Files) > 0 && !v.Running() {
			v.Last = one
		}
	}
	if n := len(v.Steps); v.Words != nil && v.Words == &v.Steps[n-1] {
		v.Words = nil
	}
	if v.Last != nil {
		v.Last.Above = true
	}
}

// DrawPipeline renders a live page of a pipeline's run.
func DrawPipeline(ctx context.Context, p *record.Pipeline, live Live, now time.Time) (Drawn, error) {
	v, _, err := drawPipeline(ctx, p, &live, "", now)
	return Drawn{template: "pipeline", live: live, data: func(l *Live) any { one := *v; one.Live = l; return &one }, parts: v.drawParts}, err
}

func (v *pipelineView) drawParts() ([]Part, error) {
	parts, err := sectionsOf(v, "head", "asked:pipeasked", "decision:pipetext", "steer", "graph:pipegraph")
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
		return formatAnswer(p.Final, p.NoShell)
	}
	return "The run has no final text; its status is " + cleanLine(p.Status) + ".\n"
}

// graphOf draws the steps from left to right in configured order, and each transition between two
// steps with its count.
func graphOf(p *record.Pipeline) graph {
	names := slices.Clone(p.Nodes)
	for _, v := range p.Visits {
		if !slices.Contains(names, v.Step) {
			names = append(names, v.Step)
		}
	}
	var taken []*way
	for i, v := range p.Visits {
		from, to := slices.Index(names, stepBefore(p.Visits[:i], v)), slices.Index(names, v.Step)
		if from < 0 {
			continue
		}
		at := slices.IndexFunc(taken, func(w *way) bool { return w.from == from && w.to == to })
		if at < 0 {
			at, taken = len(taken), append(taken, &way{from: from, to: to})
		}
		taken[at].times++
	}
	above, below := 8, 8 // room for the transitions that pass other steps
	for _, w := range taken {
		switch rise := w.rise(); {
		case w.to > w.from+1:
			above = max(above, rise)
		case w.to <= w.from:
			below = max(below, rise+6)
		}
	}
	g := graph{Width: len(names)*(nodeWidth+nodeGap) - nodeGap + 2, Height: above + nodeHeight + below}
	for i, name := range names {
		g.Nodes = append(g.Nodes, nodeOf(p, name, 1+i*(nodeWidth+nodeGap), above))
	}
	for _, w := range taken {
		e := edgeOf(*w, above)
		e.Title = fmt.Sprintf("from %s to %s: %s", cleanLine(names[w.from]), cleanLine(names[w.to]), cli.Plural(w.times, "time"))
		g.Edges = append(g.Edges, e)
	}
	return g
}

// stepBefore returns the step that led to a visit: the one before it in its line, or the fork of its branch. It is
// empty for the first visit.
func stepBefore(earlier []record.Visit, v record.Visit) string {
	for _, e := range slices.Backward(earlier) {
		if e.Branch == v.Branch {
			return e.Step
		}
	}
	return path.Base(path.Dir(string(v.Branch))) // "." outside
}

func nodeOf(p *record.Pipeline, name string, x, y int) node {
	n := node{Name: briefLine(name, 20), X: x, Y: y, Note: "not visited"}
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
		n.Note = formatDuration(worked)
	}
	if visits > 1 {
		n.Note = fmt.Sprintf("%d visits, %s", visits, n.Note)
	}
	return n
}

// way is a transition between two steps.
type way struct {
	from, to int // indices of the steps
	times    int
}

// rise returns how far a transition that passes other steps is from them.
func (w way) rise() int { return 14 + 10*max(w.from-w.to, w.to-w.from) }

// edgeOf draws a transition to the next step as a line, one to a later step above the steps, and one
// back below them.
func edgeOf(w way, y int) edge {
	left := func(i int) int { return 1 + i*(nodeWidth+nodeGap) }
	middle := y + nodeHeight/2
	var e edge
	switch x1, x2 := left(w.from)+nodeWidth, left(w.to); {
	case w.to == w.from+1:
		e = edge{Path: fmt.Sprintf("M%d %dH%d", x1, middle, x2-6), Tip: fmt.Sprintf("M%d %dl-8 -4v8z", x2-1, middle), X: (x1 + x2) / 2, Y: middle - 7}
	case w.to > w.from:
		from, to := x1-24, x2+24
		e = edge{Path: curve(from, y, to, y-6, y-w.rise()), Tip: fmt.Sprintf("M%d %dl-4 -8h8z", to, y-1), X: (from + to) / 2, Y: y - w.rise()*3/4 + 4}
	default:
		bottom := y + nodeHeight
		from, to := left(w.from)+nodeWidth/2+14, left(w.to)+nodeWidth/2-14
		e = edge{Path: curve(from, bottom, to, bottom+6, bottom+w.rise()), Tip: fmt.Sprintf("M%d %dl-4 8h8z", to, bottom+1), X: (from + to) / 2, Y: bottom + w.rise()*3/4 + 5}
	}
	if w.times > 1 {
		e.Text = fmt.Sprintf("%d×", w.times)
	}
	return e
}

// curve returns a path from one point by way of a height to another.
func curve(x1, y1, x2, y2, height int) string {
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, height, x2, height, x2, y2)
}
