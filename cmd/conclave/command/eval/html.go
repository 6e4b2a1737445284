package eval

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"conclave/cmd/conclave/view/page"
	"conclave/engine/eval"
)

// cell is the outcome of an arm on a question, on the page; the zero value without one.
type cell struct {
	eval.Sample
	Class, Page string
}

// question has the outcomes of all arms in an epoch, in the order of the arms.
type question struct {
	ID    string
	Epoch int
	Cells []cell
}

// armRow is an arm on the page.
type armRow struct {
	Name string
	eval.Figures
}

func drawIndex(s settings, sum eval.Summary, samples []eval.Sample, pages map[string]bool) ([]byte, error) {
	view := struct {
		Settings  settings
		Summary   eval.Summary
		Verdict   string
		Why       string
		Judged    string
		Arms      []armRow
		Questions []*question
	}{Settings: s, Summary: sum, Verdict: strings.ReplaceAll(string(sum.Verdict), "_", " "), Judged: eval.Judged}
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
		at := slices.IndexFunc(view.Questions, func(q *question) bool { return q.ID == sample.ID && q.Epoch == sample.Epoch })
		if at < 0 {
			at, view.Questions = len(view.Questions), append(view.Questions, &question{sample.ID, sample.Epoch, make([]cell, len(sum.Order))})
		}
		if arm := slices.Index(sum.Order, sample.Arm); arm >= 0 {
			view.Questions[at].Cells[arm] = cellOf(sample, pages)
		}
	}
	slices.SortStableFunc(view.Questions, func(a, b *question) int {
		return cmp.Or(cmp.Compare(place[a.ID], place[b.ID]), cmp.Compare(a.Epoch, b.Epoch))
	})
	return page.Evaluation(s.ID, view)
}

func cellOf(s eval.Sample, pages map[string]bool) cell {
	c := cell{Sample: s, Class: s.Outcome()}
	if c.Class == "unparsed" {
		c.Class = "none"
	}
	if page := s.SessionID + ".html"; pages[page] {
		c.Page = pagesDir + "/" + url.PathEscape(page)
	}
	return c
}
