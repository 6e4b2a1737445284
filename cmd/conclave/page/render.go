package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"conclave/cmd/conclave/record"
	"conclave/engine/step"
)

//go:embed templates
var embedded embed.FS

var (
	style  = asset("style.css")
	script = asset("script.js")

	pages = template.Must(template.New("").Funcs(functions).Funcs(template.FuncMap{
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") },
		"script": func() template.HTML { return template.HTML("<script>" + script + "</script>") },
		"policy": func() string { return standalonePolicy },
	}).ParseFS(embedded, "templates/*.tmpl"))
)

// asset reads an embedded file. It returns "" for a missing one, which the tests would detect.
func asset(name string) string {
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

// Write writes a standalone page of a session, smaller than a million bytes.
func Write(ctx context.Context, w io.Writer, r *record.Reader, now time.Time) error {
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
		v.fill(ctx, c, r.Content)
		if limit == 0 {
			v.shorten()
		} else {
			v.tell(c, transcripts)
		}
		if page, err = execute("page", v); err != nil {
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
			found[p.Dir+evaluations] = t
		}
	}
	return found
}

// evaluations is the directory of an answer's evaluation, within the directory of its step.
const evaluations = "evaluator/"

// tell adds the transcripts.
func (v *view) tell(c *cutter, transcripts map[string]step.Transcript) {
	for i, p := range v.Steps {
		v.Steps[i].Entries = entriesOf(transcripts[p.Dir], c, p.Path)
	}
	for _, a := range v.Answers {
		if a.Judged != nil {
			a.Judged.Entries = entriesOf(transcripts[a.Dir+evaluations], c, a.Dir+evaluations+"transcript.jsonl")
		}
	}
}

// mayFit reports whether a page whose texts are truncated to a limit may fit.
func mayFit(s *record.Session, transcripts map[string]step.Transcript, limit int) bool {
	total := 0
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

// shorten drops details that files or other parts contain: all but the beginning of
// older answers, and all but the first and last events.
func (v *view) shorten() {
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
			a.Text = c.cut(a.Text.Text, a.Text.Path)
		}
	}
	if all := v.Story.Events; len(all) > 2*events {
		v.Story.Events = slices.Concat(all[:events], all[len(all)-events:])
	}
}

// fill adds the answers and their files.
func (v *view) fill(ctx context.Context, c *cutter, read contents) {
	v.Answers = answersOf(ctx, v.Session, c, read)
	for i := range v.Answers {
		if v.Answers[i].Final {
			v.Final = &v.Answers[i]
		}
	}
}

func execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("draw the page: %w", err)
	}
	return b.Bytes(), nil
}
