package record

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"conclave/engine/coordination"
)

// parallel is the maximum number of steps read at the same time.
const parallel = 16

// steps reads the steps that may have changed since the last reading.
func (r *Reader) steps(ctx context.Context, s *Session) error {
	if err := r.findSteps(ctx, s); err != nil {
		return err
	}
	about := s.about()
	var mu sync.Mutex
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for agent, numbers := range r.found {
		for _, n := range numbers {
			dir, id := stepDir(agent, n), unescape(agent)
			judgements := judged(about[id][n])
			known := r.over[dir]
			if known != nil && known.judged == judgements {
				mu.Lock()
				s.Steps = append(s.Steps, known.copy())
				mu.Unlock()
				continue
			}
			group.Go(func() error {
				read := stepReader{r: r, p: &Step{Agent: id, Number: n, Dir: dir}}
				var err error
				if known != nil {
					read.p = known.copy()
					err = read.judgements(together)
				} else {
					err = read.run(together)
				}
				read.p.judged = judgements
				mu.Lock()
				defer mu.Unlock()
				s.Steps = append(s.Steps, read.p)
				r.problems = append(r.problems, read.problems...)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range s.Steps {
		if old := r.over[p.Dir]; p.Over && !p.partial && (old == nil || old.judged != p.judged) {
			r.over[p.Dir] = p.copy()
		}
	}
	slices.SortFunc(s.Steps, func(a, b *Step) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Agent, b.Agent), cmp.Compare(a.Number, b.Number))
	})
	slices.Sort(r.problems)
	return nil
}

// copy returns a copy of the step whose vote can be modified.
func (p *Step) copy() *Step {
	c := *p
	if p.Vote != nil {
		v := *p.Vote
		c.Vote = &v
	}
	if p.Answer != nil {
		a := *p.Answer
		c.Answer = &a
	}
	return &c
}

// findSteps lists the steps at the first reading. Later it only looks for steps with the
// next numbers, because numbers are assigned in order.
func (r *Reader) findSteps(ctx context.Context, s *Session) error {
	if r.found == nil {
		r.found = map[string][]int{}
		for key, err := range r.store.List(ctx, r.layout.File("agents/")) {
			if err != nil {
				r.found = nil
				return fmt.Errorf("list the steps of %s: %w", r.store.URL(r.layout.Root()), err)
			}
			parts := strings.SplitN(strings.TrimPrefix(key, r.layout.File("agents/")), "/", 3)
			if len(parts) < 3 {
				continue
			}
			n, err := strconv.Atoi(parts[1])
			if err != nil || n < 1 || stepDir(parts[0], n) != "agents/"+parts[0]+"/"+parts[1]+"/" || slices.Contains(r.found[parts[0]], n) {
				continue
			}
			r.found[parts[0]] = append(r.found[parts[0]], n)
		}
		for agent := range r.found {
			slices.Sort(r.found[agent])
		}
	}
	for _, a := range s.State.Agents {
		for next := len(r.found[a.ID]) + 1; ; next++ {
			there, err := r.store.Exists(ctx, r.layout.File(stepDir(a.ID, next)+"step.json"))
			if err != nil {
				return fmt.Errorf("look for step %d of %s: %w", next, a.ID, err)
			}
			if !there {
				break
			}
			r.found[a.ID] = append(r.found[a.ID], next)
		}
	}
	return nil
}

func stepDir(agent string, number int) string { return fmt.Sprintf("agents/%s/%03d/", agent, number) }

// unescape decodes an agent's name encoded by artifact.EscapePath.
func unescape(agent string) string {
	name, err := url.PathUnescape(strings.ReplaceAll(agent, "=", "%"))
	if err != nil {
		return agent
	}
	return name
}

// byEnd returns the steps in order of their ends, with running steps last.
func (s *Session) byEnd() []*Step {
	sorted := slices.Clone(s.Steps)
	slices.SortStableFunc(sorted, func(a, b *Step) int {
		if a.Ended.IsZero() != b.Ended.IsZero() {
			if a.Ended.IsZero() {
				return 1
			}
			return -1
		}
		return a.Ended.Compare(b.Ended)
	})
	return sorted
}

// about returns the events about steps, by agent and number.
func (s *Session) about() map[string]map[int][]coordination.Entry {
	all := map[string]map[int][]coordination.Entry{}
	for _, e := range s.Events {
		if e.Step == 0 {
			continue
		}
		if all[e.Agent] == nil {
			all[e.Agent] = map[int][]coordination.Entry{}
		}
		all[e.Agent][e.Step] = append(all[e.Agent][e.Step], e)
	}
	return all
}

// first returns the first event of the given kinds, or nil.
func first(events []coordination.Entry, kinds ...string) *coordination.Entry {
	for i, e := range events {
		if slices.Contains(kinds, e.Kind) {
			return &events[i]
		}
	}
	return nil
}
