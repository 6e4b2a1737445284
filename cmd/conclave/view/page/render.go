package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/step"
	"conclave/workflows"
)

//go:embed templates
var embedded embed.FS

var (
	style  = readAsset("style.css")
	script = readAsset("script.js")

	pages = template.Must(template.New("").Funcs(functions).Funcs(template.FuncMap{
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") },
		"script": func() template.HTML { return template.HTML("<script>" + script + "</script>") },
		"policy": func() string { return standalonePolicy },
	}).ParseFS(embedded, "templates/*.tmpl"))
)

// readAsset reads an embedded file. It returns "" for a missing one, which the tests would detect.
func readAsset(name string) string {
	data, _ := embedded.ReadFile("templates/" + name)
	return string(data)
}

// The Content-Security-Policy of a standalone document, and the one that a server sends
// with its pages.
var (
	standalonePolicy = "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
		"; img-src data:; base-uri 'none'; form-action 'none'"
	ServedPolicy = "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
		"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// maxPage is the size limit of a standalone page, in bytes.
const maxPage = 1_000_000

// limits are the lengths to which texts are truncated, tried in order until the page
// fits. With the last one the transcripts are left out.
var limits = []int{256 << 10, 32 << 10, 8 << 10, 3 << 10, 1200, 400, 0}

// Standalone renders a page of a run of any kind that needs no server and no network.
func Standalone(ctx context.Context, run record.Run, now time.Time) ([]byte, error) {
	switch run.Kind {
	case record.Pipelines:
		p, err := record.ReadPipeline(ctx, run.Store, run.Layout)
		if err != nil {
			return nil, err
		}
		return Pipeline(ctx, p, "", now)
	case record.Scenarios:
		r, err := record.ReadScenario(ctx, run.Store, run.Layout)
		if err != nil {
			return nil, err
		}
		evidence := func(path string) []byte { return run.ReadEvidence(ctx, path) }
		return Scenarios([]ScenarioRun{{Run: r, Evidence: evidence}}, nil, now)
	}
	var html bytes.Buffer
	err := Write(ctx, &html, run.Reader(), "", now)
	return html.Bytes(), err
}

// Write writes a standalone page of a session, smaller than a million bytes. Home is the address of
// the list to which it belongs; it is empty without one.
func Write(ctx context.Context, w io.Writer, r *record.Reader, home string, now time.Time) error {
	s, err := r.Read(ctx)
	if err != nil {
		return fmt.Errorf("draw the page: %w", err)
	}
	transcripts := transcriptsOf(ctx, r, s)
	var page []byte
	for _, limit := range limits {
		if limit > 0 && !mayFit(s, transcripts, limit) {
			continue
		}
		c := &cutter{limit: max(limit, 400), images: 450_000}
		v := newView(s, nil, now)
		v.Home, v.Change = home, changeOf(s.Change, c.limit)
		v.addAnswers(ctx, c, r.Content)
		if limit == 0 {
			v.dropDetails()
		} else {
			v.addTranscripts(c, transcripts)
		}
		if page, err = executeTemplate("page", v); err != nil {
			return err
		}
		if len(page) < maxPage {
			break
		}
	}
	_, err = w.Write(page)
	return err
}

// transcriptsOf reads the transcripts of steps and evaluations, by directory. It leaves out
// unreadable ones.
func transcriptsOf(ctx context.Context, r *record.Reader, s *record.Session) map[string]step.Transcript {
	found := map[string]step.Transcript{}
	for _, p := range s.Steps {
		if t, err := r.Transcript(ctx, p); err == nil {
			found[p.Dir] = t
		}
		if p.Evaluation == nil {
			continue
		}
		if t, err := r.EvaluationTranscript(ctx, p); err == nil {
			found[p.Dir+record.Evaluations] = t
		}
	}
	return found
}

func (v *view) addTranscripts(c *cutter, transcripts map[string]step.Transcript) {
	for i, p := range v.Steps {
		v.Steps[i].Entries = entriesOf(transcripts[p.Dir], c, p.Path)
	}
	for _, a := range v.Answers {
		if a.Judged != nil {
			a.Judged.Entries = entriesOf(transcripts[a.Dir+record.Evaluations], c, a.Dir+record.Evaluations+"transcript.jsonl")
		}
	}
}

// mayFit reports whether a page whose texts are truncated to a limit may fit.
func mayFit(s *record.Session, transcripts map[string]step.Transcript, limit int) bool {
	total := min(len(s.Change), 16*limit)
	add := func(size int) { total += min(size, limit) }
	for _, p := range s.Steps {
		if p.Answer != nil {
			add(2 * len(p.Answer.Text)) // the text is there as Markdown and as plain text
			for _, f := range p.Answer.Files {
				add(int(min(f.Size, maxPage)) / 2) // equal files are shown once
			}
		}
		if p.Evaluation != nil {
			add(len(p.Evaluation.Packet))
		}
	}
	for _, t := range transcripts {
		for _, l := range t.Lines {
			for _, m := range l.Messages {
				add(len(m.Content))
				for _, call := range m.ToolCalls {
					add(len(call.Arguments))
				}
			}
		}
	}
	return total < maxPage
}

// dropDetails drops details that files or other parts contain: all but the beginning of
// older answers, and all but the first and last events.
func (v *view) dropDetails() {
	const beginning, events = 80, 60
	v.Terse = true
	for i := range v.Steps {
		v.Steps[i].LeftOut = true
	}
	newest := map[string]string{}
	for _, a := range v.Agents {
		newest[a.ID] = a.LatestLabel
	}
	for i := range v.Answers {
		a := &v.Answers[i]
		if a.Terse = !a.Final && newest[a.Agent] != a.Label; a.Terse {
			c := cutter{limit: beginning}
			a.Text = c.cutText(a.Text.Text, a.Text.Path)
		}
	}
	if all := v.Story.Events; len(all) > 2*events {
		v.Story.Events = slices.Concat(all[:events], all[len(all)-events:])
	}
}

func (v *view) addAnswers(ctx context.Context, c *cutter, read contents) {
	v.Answers = answersOf(ctx, v.Session, c, read)
	for i := range v.Answers {
		if v.Answers[i].Final {
			v.Final = &v.Answers[i]
		}
	}
}

func executeTemplate(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("draw the page: %w", err)
	}
	return b.Bytes(), nil
}

// Filter selects items.
type Filter struct {
	Status, Text, Team string
	Days               string // started within so many; empty for all
	MinCost            string // cost in dollars
	All                bool   // with the runs that pipelines and evaluations started
	Sort               string // cost or time taken; empty for the newest first
}

// FilterOf reads a filter from a URL query.
func FilterOf(q url.Values) Filter {
	return Filter{
		Status: q.Get("status"), Text: q.Get("text"), Team: q.Get("team"), Days: q.Get("days"), MinCost: q.Get("cost"), Sort: q.Get("sort"),
		All: q.Has("all"),
	}
}

// isNested reports whether a pipeline or an evaluation started a run.
func isNested(i record.Item) bool { return i.Parent != "" || record.IsOfEvaluation(i.ID) }

// Beside returns the address of the run that is so many places older than a run among those of its kind; nested
// ones are only beside a nested one. It is empty without one.
func Beside(items []record.Item, page string, older int) string {
	find := func(i record.Item) bool { return i.Href == page }
	at := slices.IndexFunc(items, find)
	if at < 0 {
		return ""
	}
	of := items[at]
	items = slices.DeleteFunc(slices.Clone(items), func(i record.Item) bool { return i.Kind != of.Kind || isNested(i) && !isNested(of) })
	slices.SortStableFunc(items, func(a, b record.Item) int { return b.Started.Compare(a.Started) })
	if at = slices.IndexFunc(items, find) + older; at < 0 || at >= len(items) {
		return ""
	}
	return items[at].Href
}

func (f Filter) admits(i record.Item, now time.Time) bool {
	words := strings.ToLower(i.ID + " " + i.Query)
	for word := range strings.FieldsSeq(strings.ToLower(f.Text)) {
		if !strings.Contains(words, word) {
			return false
		}
	}
	days, err := strconv.ParseFloat(f.Days, 64)
	if err == nil && now.Sub(i.Started) > time.Duration(days*24*float64(time.Hour)) {
		return false
	}
	least, err := strconv.ParseFloat(f.MinCost, 64)
	if err == nil && least > 0 && (i.Usage == nil || i.Usage.AtLeastUSD() < least) {
		return false
	}
	return (f.Status == "" || f.Status == i.Status) && (f.Team == "" || f.Team == i.Team)
}

// listed is the list as the data of its template.
type listed struct {
	Filter
	Live     *Live
	Items    []record.Item
	Known    int // runs that the filter may admit
	Hidden   int // nested ones that it leaves out
	Statuses []string
	Teams    []string
}

// Frame returns the frame of the list.
func (l listed) Frame() frame { return frame{Live: l.Live, Title: "Sessions"} }

// Ask returns the request for a new session; nil if the reader cannot start one.
func (l listed) Ask() *action {
	if len(l.Live.Teams) == 0 {
		return nil
	}
	command := "run"
	if len(l.Live.Teams) > 1 {
		command = "run --team TEAM"
	}
	return &action{Path: "/ask", Token: l.Live.Token, Verb: "ask", Name: "Ask the team", Main: true, Command: commandLine(l.Live, command, placeholder), Hint: "A question", Long: true, Teams: l.Live.Teams}
}

// List renders the list of all sessions, the newest first.
func List(items []record.Item, f Filter, live Live) ([]byte, error) {
	l := listed{Filter: f, Live: &live}
	now := time.Now()
	for _, i := range items {
		if !f.All && isNested(i) {
			l.Hidden++
			continue
		}
		l.Known++
		if i.Status != "" && !slices.Contains(l.Statuses, i.Status) {
			l.Statuses = append(l.Statuses, i.Status)
		}
		if i.Team != "" && !slices.Contains(l.Teams, i.Team) {
			l.Teams = append(l.Teams, i.Team)
		}
		if f.admits(i, now) {
			l.Items = append(l.Items, i)
		}
	}
	slices.Sort(l.Statuses)
	slices.Sort(l.Teams)
	slices.SortStableFunc(l.Items, func(a, b record.Item) int {
		switch f.Sort {
		case "cost":
			return cmp.Compare(costOfItem(b), costOfItem(a))
		case "time":
			return cmp.Compare(b.Took, a.Took)
		}
		return b.Started.Compare(a.Started)
	})
	return executeTemplate("list", l)
}

// Starting renders the page of a run that has no record yet.
func Starting(id, notice string) ([]byte, error) {
	return executeTemplate("starting", struct {
		Frame frame
		ID    string
	}{frame{Live: &Live{Notice: notice}, Title: id, ID: cleanLine(id), Status: workflows.Running, Word: "starting"}, id})
}

func costOfItem(i record.Item) float64 {
	if i.Usage == nil {
		return 0
	}
	return i.Usage.AtLeastUSD()
}

// priceOf returns the price of an item, or its tokens if the price is unknown.
func priceOf(i record.Item) string {
	switch {
	case i.Offline:
		return "offline"
	case i.Usage == nil || i.Usage.ModelCalls == 0:
		return "–"
	case i.Usage.TotalUSD == nil && i.Usage.KnownUSD == 0:
		return cli.Count(i.Usage.InputTokens+i.Usage.OutputTokens) + " tokens"
	}
	return formatPrice(*i.Usage)
}
