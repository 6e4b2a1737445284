package prune

import (
	"fmt"
	"slices"
	"time"

	"conclave/engine/text"
	"conclave/workflows/drive"
)

// filter says which ended runs go. All of its conditions have to hold.
type filter struct {
	now       time.Time
	olderThan time.Duration // since their end
	keep      int           // the newest of those with a status stay
	statuses  []string      // empty for all

	// elsewhere says that a run without a history here may be open in another
	// namespace that shares the bucket.
	elsewhere bool
}

// kept is a run that the filter selects and that stays nevertheless.
type kept struct {
	run    *run
	reason string
}

// choose returns the runs that go, newest first, and those that stay although the filter
// selects them. The sessions of a pipeline's steps go with the run of the pipeline.
func (f filter) choose(all []*run) (chosen []*run, stay []kept) {
	newest := 0
	for _, r := range all {
		if r.parent != nil || r.isOpen() || !r.marked && !f.hasStatus(r) {
			continue
		}
		newest++
		switch {
		case !r.marked && (newest <= f.keep || f.now.Sub(r.ended) < f.olderThan):
		case !r.marked && f.mayRun(r):
			stay = append(stay, kept{r, fmt.Sprintf("it has no history here and its end is not on record, so it may run in another namespace; "+
				"if it does not, `conclave delete %s` removes it", text.ShellQuote(r.id))})
		default:
			chosen = append(chosen, r)
		}
	}
	chosen, needed := spare(chosen, all)
	return chosen, append(stay, needed...)
}

func (f filter) hasStatus(r *run) bool {
	return len(f.statuses) == 0 || slices.Contains(f.statuses, r.status)
}

// mayRun reports whether the run may be open where this command does not see it.
func (f filter) mayRun(r *run) bool {
	return f.elsewhere && r.status == unknown && len(r.closed) == 0
}

// isOpen reports whether the run or a session of its steps has not ended.
func (r *run) isOpen() bool { return r.open || slices.ContainsFunc(r.children, (*run).isOpen) }

// openStatus is the status of an open run: running, paused or parked.
func (r *run) openStatus() string {
	if r.status == drive.Paused || r.status == drive.Parked {
		return r.status
	}
	return drive.Running
}

// members returns the run and the sessions of its steps, which go first.
func (r *run) members() []*run { return append(slices.Clone(r.children), r) }

// spare takes those runs from the chosen ones whose sessions a run that stays continues.
func spare(chosen, all []*run) (rest []*run, needed []kept) {
	for {
		user := usersOf(chosen, all)
		n := len(needed)
		rest = slices.DeleteFunc(slices.Clone(chosen), func(r *run) bool {
			for _, m := range r.members() {
				if by := user[m.id]; m.kind == sessions && by != nil && !m.marked {
					needed = append(needed, kept{r, fmt.Sprintf("%s continues %s", by, m)})
					return true
				}
			}
			return false
		})
		if chosen = rest; len(needed) == n {
			return rest, needed
		}
	}
}

// usersOf returns for each session a run that stays and continues it.
func usersOf(chosen, all []*run) map[string]*run {
	going := map[*run]bool{}
	for _, r := range chosen {
		for _, m := range r.members() {
			going[m] = true
		}
	}
	users := map[string]*run{}
	for _, r := range all {
		if id := r.claim.Continues; id != "" && !going[r] {
			users[id] = r
		}
	}
	return users
}
