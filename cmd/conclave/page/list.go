package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/llm"
)

// Item is a session or another run in the list of all runs.
type Item struct {
	ID, Kind, Status, Query string
	Href                    string // address of its page; empty without one
	Parent                  string // pipeline run of which it is a step
	Team                    string
	Started                 time.Time
	Took                    time.Duration
	Usage                   *llm.Usage // nil if it is unknown
	Offline, Failed         bool
}

// Filter selects items.
type Filter struct {
	Status, Text, Team string
	Days               string // started within so many; empty for all
	MinCost            string // cost in dollars
	Sort               string // cost or time taken; empty for the newest first
}

// FilterOf reads a filter from a URL query.
func FilterOf(q url.Values) Filter {
	return Filter{
		Status: q.Get("status"), Text: q.Get("text"), Team: q.Get("team"), Days: q.Get("days"), MinCost: q.Get("cost"), Sort: q.Get("sort"),
	}
}

func (f Filter) admits(i Item, now time.Time) bool {
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
	Items    []Item
	All      int
	Statuses []string
	Teams    []string
	Live     *Live // nil: a list is not followed
}

// List renders the list of all sessions, the newest first.
func List(items []Item, f Filter) ([]byte, error) {
	l := listed{Filter: f, All: len(items)}
	now := time.Now()
	for _, i := range items {
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
	slices.SortStableFunc(l.Items, func(a, b Item) int {
		switch f.Sort {
		case "cost":
			return cmp.Compare(costOfItem(b), costOfItem(a))
		case "time":
			return cmp.Compare(b.Took, a.Took)
		}
		return b.Started.Compare(a.Started)
	})
	return execute("list", l)
}

// Starting renders the page of a run that has no record yet.
func Starting(id string) ([]byte, error) { return execute("starting", id) }

func costOfItem(i Item) float64 {
	if i.Usage == nil {
		return 0
	}
	return i.Usage.AtLeastUSD()
}

// Clock returns the duration of the item.
func (i Item) Clock() string { return progress.Clock(i.Took) }

// Cost returns the price of the item, or its tokens if the price is unknown.
func (i Item) Cost() string {
	switch {
	case i.Offline:
		return "offline"
	case i.Usage == nil || i.Usage.ModelCalls == 0:
		return "–"
	case i.Usage.TotalUSD == nil && i.Usage.KnownUSD == 0:
		return progress.Count(i.Usage.InputTokens+i.Usage.OutputTokens) + " tokens"
	}
	return money(*i.Usage)
}
