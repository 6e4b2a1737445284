package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// Item is a run in a list.
type Item struct {
	ID, Kind, Status string // the kind is the noun; the status is empty if it is unknown
	Query            string // query; the title of a scenario
	Href             string // address of its page; empty without one
	Parent           string // pipeline run of which it is a step
	Team             string
	Started          time.Time
	Took             time.Duration // up to the last change
	Usage            *llm.Usage    // nil if it is unknown
	Offline          bool
}

// IsOfEvaluation reports whether an evaluation started the session with this ID.
func IsOfEvaluation(id string) bool { return strings.HasPrefix(id, "eval-") }

// List returns the runs in a store, the newest first. A run with unreadable documents has only its ID.
func List(ctx context.Context, store artifact.Store) ([]Item, error) {
	found, changed := map[string]Run{}, map[string]time.Time{} // by the root of the run's files
	for _, kind := range Kinds {
		for o, err := range store.Objects(ctx, kind.Folder+"/") {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", store.URL(kind.Folder+"/"), err)
			}
			run, name, ok := RunOf(store, o.Key)
			if !ok || name != kind.Claim && name != kind.Status {
				continue
			}
			if found[run.Layout.Root()] = run; name == kind.Status {
				changed[run.Layout.Root()] = o.Modified
			}
		}
	}
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	items, at := make([]Item, len(found)), 0
	for root, run := range found {
		into := &items[at]
		at++
		group.Go(func() (err error) {
			*into, err = run.listItem(together, changed[root])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID)) })
	return items, nil
}

// listItem describes a run by its documents, of which damaged ones are ignored. Changed is the time of
// the last status.
func (r Run) listItem(ctx context.Context, changed time.Time) (Item, error) {
	var told struct {
		ID         string     `json:"id"`
		RunID      string     `json:"run_id"`
		Query      string     `json:"query"`
		Request    string     `json:"request"`
		Title      string     `json:"title"`
		Scenario   string     `json:"scenario"`
		CreatedAt  time.Time  `json:"created_at"`
		StartedAt  time.Time  `json:"started_at"`
		Status     string     `json:"status"`
		DurationMS int64      `json:"duration_ms"`
		Cost       *llm.Usage `json:"cost"`
		Usage      *llm.Usage `json:"usage"`
	}
	for _, name := range []string{r.Kind.Status, r.Kind.Claim} {
		data, err := r.Store.Get(ctx, r.Layout.File(name))
		if errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return Item{}, fmt.Errorf("read %s: %w", r.Store.URL(r.Layout.File(name)), err)
		}
		_ = json.Unmarshal(data, &told) // a damaged document is ignored
	}
	i := Item{ID: r.ID, Kind: r.Kind.Noun, Status: told.Status, Href: r.Page(), Usage: cmp.Or(told.Cost, told.Usage)}
	i.Query, i.Started = text.OneLine(cmp.Or(told.Query, told.Request)), told.CreatedAt
	if r.Kind == Scenarios {
		i.Query, i.Started, told.ID = text.OneLine(cmp.Or(told.Title, told.Scenario)), told.StartedAt, told.Scenario+"/"+told.RunID
		changed = i.Started.Add(time.Duration(told.DurationMS) * time.Millisecond)
	}
	if i.ID = cmp.Or(i.ID, told.ID); !i.Started.IsZero() {
		i.Took = max(0, changed.Sub(i.Started))
	}
	return i, nil
}

// readSteps reads a run without a team as a session. The names of its steps are the agents.
func (r *Reader) readSteps(ctx context.Context) (*Session, error) {
	about, err := r.listItem(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	s := &Session{ID: about.ID, Query: about.Query, Created: about.Started}
	if s.State.Status = about.Status; about.Usage != nil {
		s.State.Cost = *about.Usage
	}
	if err := r.readChangedSteps(ctx, s); err != nil {
		return nil, err
	}
	s.Steps = slices.DeleteFunc(s.Steps, func(p *Step) bool { return p.Started.IsZero() }) // never claimed
	if err := r.addMembers(ctx, s); err != nil {
		return nil, err
	}
	for _, p := range s.Steps {
		p.Accepted = p.Action != ""
	}
	r.listAgents(s)
	s.Problems = r.problems
	return s, nil
}

func (r *Reader) addMembers(ctx context.Context, s *Session) error {
	var c Team
	if _, err := r.readDocument(ctx, "config.json", &c); err != nil || len(c.Agents) == 0 {
		return err
	}
	known := map[string]bool{}
	for _, p := range s.Steps {
		if known[p.Agent] {
			continue
		}
		known[p.Agent] = true
		member := c.Agents[0]
		for _, step := range c.Steps {
			at := slices.IndexFunc(c.Agents, func(m Member) bool { return m.ID == step.Agent })
			if step.Name == p.Agent && at >= 0 {
				member = c.Agents[at]
			}
		}
		member.ID = p.Agent
		s.Team.Agents = append(s.Team.Agents, member)
	}
	return nil
}
