package prune

import (
	"fmt"
	"slices"
	"time"

	"conclave/engine/text"
	"conclave/workflows/drive"
)

// filter selects the ended runs to remove. All of its conditions must hold.
type filter struct {
	now       time.Time
	olderThan time.Duration // age since the end of a run
	keep      int           // number of the newest runs with these statuses that stay
	statuses  []string      // empty for all

	// elsewhere is set if another namespace may share the bucket, so that a run
	// without a history here may be open there.
	elsewhere bool
}

// kept is a run that the filter selects but that must be kept.
type kept struct {
	run    *run
	reason string
}

// choose returns the runs to remove, newest first, and the selected runs that must be
// kept. The sessions of a pipeline's steps are removed with the pipeline's run.
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

// mayRun reports whether the run may be open in a namespace that this command does not see.
func (f filter) mayRun(r *run) bool {
	return f.elsewhere && r.status == unknown && len(r.closed) == 0
}

// isOpen reports whether the run or the session of one of its steps has not ended.
func (r *run) isOpen() bool { return r.open || slices.ContainsFunc(r.children, (*run).isOpen) }

// openStatus is the status of an open run: running, paused or parked.
func (r *run) openStatus() string {
	if r.status == drive.Paused || r.status == drive.Parked {
		return r.status
	}
	return drive.Running
}

// members returns the sessions of the run's steps, which are removed first, and the run.
func (r *run) members() []*run { return append(slices.Clone(r.children), r) }

// spare removes from the chosen runs those with a session that a kept run continues.
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

// usersOf returns, for each session, a kept run that continues it.
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
