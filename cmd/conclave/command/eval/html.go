package eval

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"net/url"
	"slices"

	"conclave/engine/eval"
)

//go:embed templates/index.tmpl
var index string

// parsedIndex is the page of an evaluation.
var parsedIndex = template.Must(template.New("index").Parse(index))

// row is an outcome on the page.
type row struct {
	eval.Sample
	Outcome, Class, Page string
}

// armRow is an arm on the page.
type armRow struct {
	Name string
	eval.Figures
}

func drawIndex(s settings, sum eval.Summary, samples []eval.Sample, pages map[string]bool) ([]byte, error) {
	view := struct {
		Settings settings
		Summary  eval.Summary
		Why      string
		Judged   string
		Arms     []armRow
		Samples  []row
	}{Settings: s, Summary: sum, Judged: eval.Judged}
	if sum.Team != nil {
		view.Why = explainTeam(*sum.Team)
	}
	for _, name := range sum.Order {
		view.Arms = append(view.Arms, armRow{name, sum.Arms[name]})
	}
	place := map[string]int{}
	for i, sample := range samples {
		if _, seen := place[sample.ID]; !seen {
			place[sample.ID] = i
		}
		view.Samples = append(view.Samples, rowOf(sample, pages))
	}
	slices.SortStableFunc(view.Samples, func(a, b row) int {
		return cmp.Or(cmp.Compare(place[a.ID], place[b.ID]), cmp.Compare(a.Epoch, b.Epoch),
			cmp.Compare(slices.Index(sum.Order, a.Arm), slices.Index(sum.Order, b.Arm)))
	})
	var html bytes.Buffer
	if err := parsedIndex.Execute(&html, view); err != nil {
		return nil, fmt.Errorf("draw the page of the evaluation: %w", err)
	}
	return html.Bytes(), nil
}

func rowOf(s eval.Sample, pages map[string]bool) row {
	r := row{Sample: s, Outcome: "wrong", Class: "wrong"}
	switch {
	case s.Right():
		r.Outcome, r.Class = "right", "right"
	case s.Failed != "":
		r.Outcome, r.Class = s.Failed, "none"
	case s.Correct == nil:
		r.Outcome, r.Class = "unparsed", "none"
	}
	if page := s.SessionID + ".html"; pages[page] {
		r.Page = pagesDir + "/" + url.PathEscape(page)
	}
	return r
}
