//go:build simulate

package stagetest_test

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// schedule decides everything that is open in a simulated run. A decision is named by the place at which
// it is taken, not by its position in the run, so that the others stay as they are when one is left out.
type schedule struct {
	seed  uint64
	fixed map[string]string // decisions of a script, by place; nil if the seed decides
	rate  int               // how often the seed decides for something unusual, in percent of the usual rate

	taken map[string]int // how often each place has been reached
	made  []decision     // the unusual ones, in order
}

// decision is an unusual decision. Whatever is not decided takes its usual course.
type decision struct{ at, what string }

// option is one outcome of a decision and its weight in a thousand.
type option struct {
	what   string
	weight float64
}

func seeded(seed uint64) *schedule {
	s := &schedule{seed: seed, taken: map[string]int{}}
	s.rate = []int{20, 60, 100, 200}[s.draw("rate")%4]
	return s
}

func scripted(decisions []decision) *schedule {
	s := &schedule{fixed: map[string]string{}, taken: map[string]int{}}
	for _, d := range decisions {
		s.fixed[d.at] = d.what
	}
	return s
}

// draw returns a number that depends on the seed and a name only.
func (s *schedule) draw(name string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", s.seed, name)
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the last bytes of the name have to change all bits
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// place returns the name of a place. From its second time on it has a number.
func (s *schedule) place(at string) string {
	s.taken[at]++
	if n := s.taken[at]; n > 1 {
		return fmt.Sprintf("%s #%d", at, n)
	}
	return at
}

// choose decides for one of the options, or for "", the usual course. Weights are for a rate of 100
// percent. Of each kind of option only half of the seeds have any, so that rare ones meet.
func (s *schedule) choose(at string, options ...option) string {
	at = s.place(at)
	if s.fixed != nil {
		return s.note(at, s.fixed[at])
	}
	drawn := float64(s.draw(at)%1_000_000) / 1000
	for _, o := range options {
		kind, _, _ := strings.Cut(o.what, " ")
		if s.draw("kind "+kind)%2 == 0 {
			continue
		}
		if drawn -= o.weight * float64(s.rate) / 100; drawn < 0 {
			return s.note(at, o.what)
		}
	}
	return ""
}

// pick decides for one of the values, the first of which is the usual one, with equal chances.
func (s *schedule) pick(at string, values ...string) string {
	at = s.place(at)
	if s.fixed != nil {
		if v := s.note(at, s.fixed[at]); v != "" {
			return v
		}
		return values[0]
	}
	v := values[s.draw(at)%uint64(len(values))]
	if v != values[0] {
		s.note(at, v)
	}
	return v
}

func (s *schedule) note(at, what string) string {
	if what != "" {
		s.made = append(s.made, decision{at, what})
	}
	return what
}

// scriptOf writes decisions as a script, a line for each.
func scriptOf(decisions []decision) string {
	var b strings.Builder
	for _, d := range decisions {
		fmt.Fprintf(&b, "%s: %s\n", d.at, d.what)
	}
	return b.String()
}

// parseScript reads a script. Lines that begin with # are comments.
func parseScript(text string) (decisions []decision) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, what, _ := strings.Cut(line, ": ")
		decisions = append(decisions, decision{at, what})
	}
	return decisions
}

// shrink leaves out decisions as long as the rest still fails, and lowers the times of those that remain. It
// gives up after a number of tries.
func shrink(decisions []decision, tries int, fails func([]decision) bool) []decision {
	counted := func(d []decision) bool { tries--; return tries >= 0 && fails(d) }
	few := leaveOut(decisions, &tries, counted)
	for i := range few {
		kind, _, timed := strings.Cut(few[i].what, " ")
		for _, shorter := range []string{"2s", "20s"} {
			lower := slices.Clone(few)
			lower[i].what = kind + " " + shorter
			if timed && length(few[i].what[len(kind)+1:]) > length(shorter) && counted(lower) {
				few = lower
				break
			}
		}
	}
	return few
}

// leaveOut leaves out halves, quarters and so on, and then single decisions.
func leaveOut(decisions []decision, tries *int, fails func([]decision) bool) []decision {
	for size := (len(decisions) + 1) / 2; size > 0; {
		removed := false
		for at := 0; at < len(decisions) && *tries > 0; {
			rest := slices.Concat(decisions[:at], decisions[min(at+size, len(decisions)):])
			if fails(rest) {
				decisions, removed = rest, true
				continue
			}
			at += size
		}
		if *tries <= 0 || size == 1 && !removed {
			break
		}
		if !removed || size > 1 {
			size = max(1, size/2)
		}
	}
	return decisions
}
