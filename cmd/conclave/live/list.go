package live

import (
	"net/http"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/cmd/conclave/runs"
	"conclave/engine/coordination"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// list shows all runs. To the holder of a key it shows only the sessions started with that key.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	if h.conn == nil {
		for base := range h.pages {
			http.Redirect(w, r, base, http.StatusSeeOther)
		}
		return
	}
	filter, by := page.FilterOf(r.URL.Query()), access.From(r.Context())
	var items []page.Item
	if h.conn.Client == nil && by.Name == "" {
		stored, err := record.List(r.Context(), h.conn.Store)
		if err != nil {
			fail(w, err)
			return
		}
		for _, each := range stored {
			items = append(items, storedItem(each))
		}
	} else if h.conn.Client != nil {
		for _, kind := range h.Kinds {
			found, err := runs.All(r.Context(), h.conn, kind)
			if err != nil {
				fail(w, err)
				return
			}
			for _, each := range found {
				if by.Name != "" && runs.Memo(each.Memo, drive.MemoCaller, "") != by.Name {
					continue // the key's own sessions only
				}
				items = append(items, itemOf(each))
			}
		}
	}
	html, err := page.List(items, filter)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

func itemOf(r runs.Listed) page.Item {
	i := page.Item{
		ID: r.ID, Kind: r.Kind.Noun, Status: r.Shown(), Query: text.OneLine(r.Query), Started: r.Started, Took: r.Elapsed(), Usage: r.Usage,
		Parent: r.Pipeline, Team: r.Team, Offline: r.Offline, Failed: r.Status == string(coordination.FailedAll),
	}
	if r.Kind.Page != "" {
		i.Href = r.Kind.Page + r.ID
	}
	return i
}

// nouns are the kinds of stored runs, with the nouns in the list.
var nouns = map[string]string{"sessions": "session", "pipelines": "pipeline run", "scenarios": "scenario run"}

func storedItem(s record.Stored) page.Item {
	return page.Item{
		ID: s.ID, Kind: nouns[s.Kind], Status: s.Status, Query: text.OneLine(s.Query), Href: "/" + s.Kind + "/" + s.ID, Started: s.Created, Took: s.Took(), Usage: s.Usage,
	}
}
